"""Meta seq2seq: the rows of Lake (2019)."""

from recombine.experiments.seq2seq._rows import META_SEQ2SEQ as META_SEQ2SEQ
