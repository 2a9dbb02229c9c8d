"""Memlane: hosted search over the memory of people who work with AI agents."""
