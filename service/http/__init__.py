"""The HTTP interface: one noun a file."""
