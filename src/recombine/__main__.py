"""Lets `python -m recombine` be the command."""

from recombine.cli import main

main()
