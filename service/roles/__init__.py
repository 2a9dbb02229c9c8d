"""The roles a process can have, each assembled from the parts below it."""
