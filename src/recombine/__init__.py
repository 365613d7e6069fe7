"""Recombine learns the parts of a problem, so that they can be put together in new ways."""

__version__ = "0.1.0"
