"""A fleet of real roles on this machine: started, driven, broken on purpose, measured."""
