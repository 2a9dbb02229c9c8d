"""The semantic lane."""
