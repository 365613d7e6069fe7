"""Agreement and consistency: the rows of Neitz, thesis, chapter 3."""

from recombine.experiments.agreement._rows import AGREEMENT as AGREEMENT
