"""The commands of the CLI, one file a noun; `service.cli` puts them together."""
