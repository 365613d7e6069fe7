"""Learning a language from a few examples of it, on people's own episodes (Lake 2019).

Departures from the paper, made for data of any origin: episodes come from a fixed collection and
in several shapes; padding is kept out of the decoder's attention, so that an answer does not
depend on what else is asked; the network is smaller, with less dropout and a higher learning rate,
which falls tenfold after four fifths of the steps.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Int
from sklearn.utils.validation import check_is_fitted

from recombine.estimators._attention import Attention
from recombine.estimators._base import Estimator, draw_seed, make_random_state
from recombine.estimators._buckets import EpisodeArrays, make_buckets
from recombine.estimators._checks import check_count, check_number
from recombine.estimators._episode_answers import (
    answer_and_look,
    answer_queries,
    count_exact,
    on_device,
)
from recombine.estimators._episode_learner import EpisodeLearner
from recombine.estimators._episodes import (
    Pair,
    ParsedEpisode,
    parse_episodes,
    parse_pairs,
    parse_tokens,
)
from recombine.estimators._symbols import Alphabet, Alphabets
from recombine.methods.seq2seq import (
    MetaSeq2Seq as Network,
    MetaSeq2SeqConfig,
    OptimizerConfig,
)
from recombine.training import enable_compilation_cache

MEASURED_EPISODES = 16
"""So many episodes are answered for each point of a training curve."""


class MetaSeq2Seq(Estimator):
    r"""A network that learns new words from a few examples and uses them in sentences at once.

    It is trained on **episodes**. Each is a small language of its own: support pairs show what
    words mean, queries ask for sentences made of them. What a word means changes from episode to
    episode, so the network cannot store it in its weights; what it learns is to look it up in the
    support, and to put the parts together. After training, `predict` takes the support pairs of a
    new language and answers in it, without any further training (Lake 2019).

    **Episodes** are dicts `{"support": [[input, output], ...], "queries": [[input, output],
    ...]}` or `Episode` tuples. Inputs and outputs are token lists, or strings, which are split on
    whitespace. `read_episodes` reads them from a file. What varies between training episodes is
    what the network learns to pick up from examples; what is the same in all of them it takes for
    granted. All tokens of a new language must have occurred in training, on the same side.

    **A single language**, or few episodes, are not enough to learn from. `permute_words` makes
    many languages of one: in every step the input words of each group trade places at random, in
    support and queries alike (the permutation meta-training of the paper).

    **Episodes of different sizes** are sorted into at most `max_buckets` buckets, each padded to
    its own largest episode; `padding_` says how much of what is read is padding.

    Args:
        size: units of each layer.
        steps: updates of the network, each on one episode. The loss often stays on a plateau for
            a thousand steps before it falls.
        dropout: the share of units that are dropped while training.
        learning_rate: of Adam; it falls tenfold after four fifths of the steps.
        support_loss: whether the support pairs are asked in training too, which helps the network
            to discover its memory.
        permute_words: groups of input words, each a list or a string such as `"dax wif lug"`.
        max_output_length: the longest answer that is given, in tokens; by default half as long
            again as the longest output in training.
        max_buckets: how many shapes of episodes are compiled, at most.
        random_state: a whole number for the same result every time, on the same kind of device.
        verbose: whether to show progress.

    Attributes:
        input_tokens_: the tokens of inputs, sorted.
        output_tokens_: the tokens of outputs, sorted.
        max_output_length_: the longest answer that is given.
        buckets_: one row per bucket: its episodes, support pairs, pairs asked, and the longest
            input, support output and answer (with the end of the sequence).
        padding_: the share of padding in what the network reads and writes in training.
        history_: training curves: `step`, `accuracy` (exact match on queries of 16 training
            episodes), `validation_accuracy` (on up to 16 validation episodes, where they are
            given), and from the second entry on the `loss` of the last step before.
        model_: the network.

    Example:
        >>> from itertools import permutations
        >>> from recombine import MetaSeq2Seq
        >>> means = {"dax": "RED", "wif": "GREEN", "lug": "BLUE"}
        >>> said = [*permutations(means, 1), *permutations(means, 2)]
        >>> queries = [(words, [means[word] for word in words]) for words in said]
        >>> episode = {"support": list(means.items()), "queries": queries}
        >>> model = MetaSeq2Seq(
        ...     permute_words=["dax wif lug"], steps=3000, learning_rate=5e-3, random_state=0
        ... )
        >>> other_meanings = [("dax", "BLUE"), ("wif", "RED"), ("lug", "GREEN")]
        >>> model.fit([episode]).predict(other_meanings, ["dax wif", "lug dax"])
        ['BLUE RED', 'GREEN BLUE']
    """

    model_: Network
    input_tokens_: list[str]
    output_tokens_: list[str]
    max_output_length_: int
    buckets_: Int[np.ndarray, "buckets 6"]
    padding_: float

    def __init__(
        self,
        *,
        size: int = 64,
        steps: int = 5000,
        dropout: float = 0.1,
        learning_rate: float = 3e-3,
        support_loss: bool = True,
        permute_words: Sequence[Any] = (),
        max_output_length: int | None = None,
        max_buckets: int = 4,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.size = size
        self.steps = steps
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.support_loss = support_loss
        self.permute_words = permute_words
        self.max_output_length = max_output_length
        self.max_buckets = max_buckets
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, episodes: Any, validation: Any = None) -> Self:
        """Trains the network.

        Args:
            episodes: what to train on.
            validation: episodes that are only measured, for `history_`: languages that do not
                occur in `episodes` show whether new ones are learned.
        """
        self._forget()
        self._check_parameters()
        parsed = parse_episodes(episodes, "episodes")
        self._take_tokens(parsed)
        watched = [] if validation is None else self._known(validation, "validation")
        bucketed = make_buckets(
            parsed,
            self._alphabets,
            most=int(self.max_buckets),
            ask_support=bool(self.support_loss),
        )
        self.buckets_ = np.array([_describe(bucket) for bucket in bucketed.buckets])
        self.padding_ = float(bucketed.padding)
        random_state = make_random_state(self.random_state)
        measured = {"accuracy": self._measured(parsed, random_state)}
        if watched:
            measured["validation_accuracy"] = self._measured(watched, random_state)
        learner = EpisodeLearner(
            buckets=on_device(tuple(bucketed.buckets)),
            measured=on_device(measured),
            architecture=self._architecture(),
            optimizer=OptimizerConfig(
                learning_rate=float(self.learning_rate),
                drop_at=math.ceil(0.8 * int(self.steps)),
            ),
            permuted=self._permuted(),
        )
        # As one of several vectorized seeds, a step would compute every bucket's episode.
        self.model_ = self._train(
            learner,
            steps=int(self.steps),
            seed=draw_seed(random_state),
            vectorize=False,
            remedy="Lower `learning_rate`.",
        ).model
        return self

    def predict(self, support: Any, queries: Any) -> list[Any]:
        """Answers queries in the language that the support pairs show.

        Args:
            support: pairs [input, output], at least one.
            queries: inputs, each a string or a list of tokens.

        Returns:
            For each query its answer: a string where the query is one, else a list of tokens.

        Raises:
            LookupError: tokens that did not occur in training; the message names them.
        """
        check_is_fitted(self)
        shown = self._known_pairs(support)
        if isinstance(queries, str | Mapping) or not isinstance(queries, Iterable):
            raise TypeError(
                f"`queries` must be a list of queries; got {queries!r}. For a single query, give "
                f"a list with one element."
            )
        queries = list(queries)
        asked = [parse_tokens(query, f"`queries`[{i}]") for i, query in enumerate(queries)]
        self._alphabets.inputs.check(asked, "`queries`")
        enable_compilation_cache()
        answers = answer_queries(
            self.model_, self._alphabets, shown, asked, longest=self.max_output_length_
        )
        return [
            " ".join(answer) if isinstance(query, str) else answer
            for query, answer in zip(queries, answers, strict=True)
        ]

    def attention(self, support: Any, query: Any) -> Attention:
        """Answers one query and says where the network looked for each word of it.

        Args:
            support: pairs [input, output], at least one.
            query: an input, a string or a list of tokens.

        Raises:
            LookupError: tokens that did not occur in training; the message names them.
        """
        check_is_fitted(self)
        shown = self._known_pairs(support)
        words = parse_tokens(query, "`query`")
        self._alphabets.inputs.check([words], "`query`")
        enable_compilation_cache()
        return answer_and_look(
            self.model_, self._alphabets, shown, words, longest=self.max_output_length_
        )

    def score(self, episodes: Any) -> float:
        """Returns the share of queries that are answered exactly, over all episodes."""
        check_is_fitted(self)
        parsed = self._known(episodes, "episodes")
        bucketed = make_buckets(
            parsed, self._alphabets, most=int(self.max_buckets), ask_support=False
        )
        enable_compilation_cache()
        correct = count_exact(self.model_, bucketed.buckets)
        return correct / sum(len(episode.queries) for episode in parsed)

    @property
    def _alphabets(self) -> Alphabets:
        return Alphabets(
            Alphabet(tuple(self.input_tokens_), "inputs"),
            Alphabet(tuple(self.output_tokens_), "outputs"),
        )

    def _model_template(self) -> Any:
        return eqx.filter_eval_shape(self._architecture().make, key=jr.key(0))

    def _architecture(self) -> MetaSeq2SeqConfig:
        return MetaSeq2SeqConfig(
            num_inputs=len(self.input_tokens_) + 2,
            num_outputs=len(self.output_tokens_) + 2,
            size=int(self.size),
            dropout=float(self.dropout),
            mask_decoder_attention=True,
        )

    def _take_tokens(self, episodes: Sequence[ParsedEpisode]) -> None:
        pairs = [pair for episode in episodes for pair in [*episode.support, *episode.queries]]
        self.input_tokens_ = list(Alphabet.of((source for source, _ in pairs), "inputs").names)
        self.output_tokens_ = list(Alphabet.of((target for _, target in pairs), "outputs").names)
        if not self.output_tokens_:
            raise ValueError("`episodes` must have outputs; all of them are empty")
        longest = max(len(target) for _, target in pairs)
        self.max_output_length_ = (
            longest + max(5, longest // 2)
            if self.max_output_length is None
            else int(self.max_output_length)
        )
        self._check_lengths(episodes, "episodes")

    def _check_lengths(self, episodes: Sequence[ParsedEpisode], name: str) -> None:
        for number, episode in enumerate(episodes):
            for source, target in [*episode.support, *episode.queries]:
                if len(target) > self.max_output_length_:
                    raise ValueError(
                        f"`{name}`[{number}] has an output of {len(target)} tokens (for "
                        f"{' '.join(source)!r}), but answers end after "
                        f"{self.max_output_length_}: raise `max_output_length` and fit"
                    )

    def _known(self, episodes: Any, name: str) -> list[ParsedEpisode]:
        parsed = parse_episodes(episodes, name)
        for number, episode in enumerate(parsed):
            self._alphabets.check([*episode.support, *episode.queries], f"`{name}`[{number}]")
        self._check_lengths(parsed, name)
        return parsed

    def _known_pairs(self, support: Any) -> list[Pair]:
        pairs = parse_pairs(support, "`support`", "show the network what words mean")
        self._alphabets.check(pairs, "`support`")
        return pairs

    def _measured(
        self, episodes: Sequence[ParsedEpisode], random_state: np.random.RandomState
    ) -> EpisodeArrays:
        """Draws some episodes, and pads them to one shape."""
        count = min(MEASURED_EPISODES, len(episodes))
        some = [episodes[i] for i in random_state.permutation(len(episodes))[:count]]
        return make_buckets(some, self._alphabets, most=1, ask_support=False).buckets[0]

    def _permuted(self) -> tuple[tuple[int, ...], ...]:
        groups = [
            parse_tokens(group, f"`permute_words`[{i}]")
            for i, group in enumerate(self.permute_words)
        ]
        self._alphabets.inputs.check(groups, "`permute_words`")
        for i, group in enumerate(groups):
            if len(group) < 2:
                raise ValueError(
                    f"`permute_words`[{i}] has one word only, {' '.join(group)!r}, which cannot "
                    f"trade places. Put the words of a group into one string, as in "
                    f'["dax wif lug"], or into a list of their own.'
                )
        words = [word for group in groups for word in group]
        for word in words:
            if words.count(word) > 1:
                raise ValueError(f"`permute_words` has {word!r} more than once")
        return tuple(tuple(self.input_tokens_.index(word) for word in group) for group in groups)

    def _check_parameters(self) -> None:
        check_count("size", self.size)
        check_count("steps", self.steps)
        check_count("max_buckets", self.max_buckets)
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_number("dropout", self.dropout)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must lie in [0, 1); got {self.dropout!r}")
        if self.max_output_length is not None:
            check_count("max_output_length", self.max_output_length)
        if isinstance(self.permute_words, str) or not isinstance(self.permute_words, Sequence):
            raise TypeError(
                f"`permute_words` must be a list of groups of words; got {self.permute_words!r}. "
                f"For a single group, give a list with one element."
            )


def _describe(bucket: EpisodeArrays) -> tuple[int, ...]:
    num_episodes, num_shown, input_width = bucket.support.inputs.tokens.shape
    num_asked, answer_width = bucket.queries.outputs.tokens.shape[1:]
    shown_width = bucket.support.outputs.tokens.shape[2]
    return num_episodes, num_shown, num_asked, input_width, shown_width, answer_width
