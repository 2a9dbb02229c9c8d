"""How candidates are found in posting lists and put in order. Pure: no I/O, no clock."""
