"""Entry point of `python -m hx`, which is the command `hx`."""

from hx.cli import main

main()
