"""Adaptive skip intervals: the rows of Neitz's thesis, chapter 2."""

from recombine.experiments.skipping._rows import SKIPPING as SKIPPING
