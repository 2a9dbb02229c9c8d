"""`python -m service` is the `memlane` command."""

from service.cli import main

main(prog_name="memlane")
