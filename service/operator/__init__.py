"""What an operator sees of a node: reports from its own figures, charts, pages."""
