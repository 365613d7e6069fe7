"""Where a meta seq2seq network looked while it answered, with names for rows and columns."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Attention(NamedTuple):
    """Where the network looked while it answered one query (Lake 2019, figures A.1 and A.2).

    `memory[i, j]` is how much `words[i]` of the query drew from the pair `shown[j]` of the
    support. `decoder[i, j]` is how much `written[i]` of the answer drew from `words[j]`. Every
    row sums to one. The end of a sequence is a word like any other, `<EOS>`.
    """

    answer: list[str]
    """The answer's tokens."""
    words: list[str]
    """The query's tokens, and `<EOS>`."""
    shown: list[str]
    """The support pairs, such as `dax = RED`."""
    written: list[str]
    """The answer's tokens, and `<EOS>` unless the answer was cut at the length limit."""
    memory: Float[np.ndarray, "words shown"]
    """Attention to the support."""
    decoder: Float[np.ndarray, "written words"]
    """Attention to the query."""
