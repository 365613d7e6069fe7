"""Modular hypernetworks: the rows of Schug et al. (2024)."""

from recombine.experiments.hypernetworks._rows import MODULAR as MODULAR
