"""Other search engines, run on the same queries: one a file, all behind `engine.Engine`."""
