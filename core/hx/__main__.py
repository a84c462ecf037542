"""`python -m hx` is the command `hx`."""

from hx.cli import main

main()
