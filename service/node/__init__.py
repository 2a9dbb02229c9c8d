"""One node's files: what a writer owns, what a reader holds, and the connections to both."""
