"""One tenant's file: its schema, its one writer, its readers."""
