"""One query over one open index."""
