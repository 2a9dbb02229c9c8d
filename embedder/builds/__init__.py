"""Models made from registry packages, one recipe a file; see `recipes.py`."""
