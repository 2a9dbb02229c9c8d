"""What the service tells about itself."""
