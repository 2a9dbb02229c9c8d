"""The optional embedding sidecar; it shares nothing with `service` but a protocol."""
