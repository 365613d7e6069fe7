"""The `recombine` command."""

from recombine.cli._app import main as main
