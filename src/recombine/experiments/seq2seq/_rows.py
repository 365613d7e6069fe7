"""The 17 rows of Lake (2019): text of §4.2 to §4.6, Table 2."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Group, Metric, Paper, Row, System, Variant
from recombine.experiments._rules import Above, AllOf, AtLeast, AtMost, Below, Rule
from recombine.experiments.seq2seq._config import Seq2SeqConfig
from recombine.experiments.seq2seq._pictures import ATTENTION_ME, ATTENTION_SCAN

TEST = Metric("test_accuracy", "exact match on the test set")
VALIDATION = Metric("validation_accuracy", "exact match on validation episodes")
EPISODES, EVERY, SEEDS = 10_000, 100, 5
UPDATES_SYNTACTIC = 211_248  # 18 epochs, the released code's 200,000 rounded up

SEES_TEST_COMMANDS = "trained on all commands with other meanings, the test commands among them"

UNROLL = 7  # divides the 49 steps of an answer; fewer loop iterations, longer compilation

META = Seq2SeqConfig(task="add-jump/permutation", unroll=UNROLL)
PLAIN = Seq2SeqConfig(task="add-jump/batches", network="plain", unroll=UNROLL)
SYNTACTIC = Seq2SeqConfig(
    task="add-jump/batches",
    network="syntactic",
    batch_size=1,
    drop_at=None,
    clip_norm=None,
    unroll=UNROLL,
)

PERMUTATION = "scan/add-jump/permutation"
AUGMENTATION = "scan/add-jump/augmentation"


def _make_learner(config: Seq2SeqConfig, steps: int) -> Any:
    from recombine.experiments.seq2seq._learners import make_seq2seq_learner  # loads JAX

    return make_seq2seq_learner(config, steps)


def _row(
    row_id: str,
    claim: str,
    method: str,
    config: Seq2SeqConfig,
    paper: Paper,
    rule: Rule,
    *,
    quick: Variant | None = None,
    steps: int = EPISODES,
    eval_every: int = EVERY,
    note: str = "",
    higher_is_better: bool = True,
) -> Row:
    tiny = replace(
        config,
        size=8,
        max_actions=None if config.task.startswith("length") else 8,
        num_extras=min(config.num_extras, 2),
        unroll=1,
    )
    is_scan = config.task != "mutual-exclusivity"
    return Row(
        id=row_id,
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=replace(TEST, higher_is_better=higher_is_better),
        also=(VALIDATION,),
        paper=paper,
        full=Variant(config, steps, eval_every, SEEDS, rule, note),
        quick=quick,
        tiny=Variant(tiny, 2, 2, 1, AtLeast(0.0), "for tests: too small to show anything"),
        pictures=(ATTENTION_SCAN if is_scan else ATTENTION_ME,),
    )


def _paper(mean: float, sd: float | None, source: str, words: str = "") -> Paper:
    """A printed percentage over five runs."""
    return Paper(source, mean / 100, None if sd is None else sd / 100, SEEDS, words)


def _between(low: float, high: float) -> Rule:
    return AllOf((AtLeast(low), AtMost(high)))


CITED = "Table 2, quoted from Russin et al. (2019)"
TRAINED = AtLeast(0.99, metric="train_accuracy")
QUICK_SCAN = {
    "size": 64,
    "dropout": 0.0,
    "learning_rate": 3e-3,
    "drop_at": 0.8,
    "max_actions": 6,
    "unroll": 1,
}
QUICK_NOTE = (
    "64 units in place of 200, no dropout, learning rate 3e-3, commands of at most six actions, "
    "one seed"
)

MUTUAL_EXCLUSIVITY = Group(
    id="me",
    title="Mutual exclusivity",
    source="Lake (2019), §4.2",
    rows=(
        _row(
            "me/meta",
            "A word whose meaning is not shown takes the meaning that is left over.",
            "meta seq2seq",
            replace(META, task="mutual-exclusivity", precision="highest"),
            _paper(100, 0, "§4.2"),
            AtLeast(0.99, "min"),
            quick=Variant(
                Seq2SeqConfig(
                    task="mutual-exclusivity",
                    size=100,
                    dropout=0.0,
                    drop_at=0.8,
                ),
                steps=9_000,
                eval_every=500,
                num_seeds=1,
                rule=AtLeast(0.99, "min"),
                note="100 units in place of 200, no dropout, a later drop of the learning rate, "
                "one seed",
            ),
        ),
    ),
)

ADD_JUMP = Group(
    id="scan/add-jump",
    title="A new verb from one example",
    source="Lake (2019), §4.3 and §4.4, Table 2",
    rows=(
        _row(
            "scan/add-jump/standard/seq2seq",
            "A plain network that has seen `jump` alone cannot use it in a sentence.",
            "seq2seq, standard training",
            PLAIN,
            _paper(0.03, 0.02, "§4.3, Table 2", "training accuracy above 99%"),
            AllOf((AtMost(0.012), TRAINED)),
            higher_is_better=False,
            quick=Variant(
                replace(PLAIN, **QUICK_SCAN),
                steps=3_000,
                eval_every=500,
                num_seeds=1,
                rule=AllOf((AtMost(0.1), TRAINED, Below(f"{PERMUTATION}/meta", 0.5))),
                note=QUICK_NOTE,
            ),
        ),
        _row(
            "scan/add-jump/standard/synatt",
            "Keeping syntax and meaning apart helps, but not reliably.",
            "syntactic attention, standard training",
            SYNTACTIC,
            _paper(78.4, 27.4, CITED),
            _between(0.5, 1.0),
            steps=UPDATES_SYNTACTIC,
            eval_every=UPDATES_SYNTACTIC // 18,
        ),
        _row(
            f"{PERMUTATION}/meta",
            "Meta-trained on verbs that change their meanings, the network uses a verb at once "
            "that it was shown once.",
            "meta seq2seq, permutation",
            META,
            _paper(99.95, 0.08, "§4.3, Table 2", SEES_TEST_COMMANDS),
            AtLeast(0.995),
            quick=Variant(
                replace(META, **QUICK_SCAN),
                steps=4_000,
                eval_every=500,
                num_seeds=1,
                rule=AllOf((AtLeast(0.9), Above("scan/add-jump/standard/seq2seq", 0.5))),
                note=QUICK_NOTE,
            ),
        ),
        _row(
            f"{PERMUTATION}/meta-no-support-loss",
            "Without being asked what it was shown, the network does not learn to use its memory.",
            "meta seq2seq, permutation, no support loss",
            replace(META, support_loss=False),
            _paper(5.43, 7.6, "§4.3, Table 2", SEES_TEST_COMMANDS),
            AtMost(0.3),
            higher_is_better=False,
        ),
        _row(
            f"{PERMUTATION}/meta-no-attention",
            "Without attention over the query, a decoder loses long commands.",
            "meta seq2seq, permutation, no decoder attention",
            replace(META, decoder_attention=False),
            _paper(10.32, 6.4, "§4.3, Table 2", SEES_TEST_COMMANDS),
            AtMost(0.3),
            higher_is_better=False,
        ),
        _row(
            f"{AUGMENTATION}/meta",
            "With many verbs in place of four, meta-training still learns to use a new one.",
            "meta seq2seq, augmentation",
            replace(META, task="add-jump/augmentation"),
            _paper(98.71, 1.49, "§4.4, Table 2", SEES_TEST_COMMANDS),
            AtLeast(0.97),
        ),
        _row(
            f"{AUGMENTATION}/meta-no-support-loss",
            "With many verbs the network needs its memory, and learns to use it without being "
            "asked what it was shown.",
            "meta seq2seq, augmentation, no support loss",
            replace(META, task="add-jump/augmentation", support_loss=False),
            _paper(99.48, 0.37, "§4.4, Table 2", SEES_TEST_COMMANDS),
            AtLeast(0.98),
        ),
        _row(
            f"{AUGMENTATION}/meta-no-attention",
            "With many verbs, too, a decoder without attention over the query fails.",
            "meta seq2seq, augmentation, no decoder attention",
            replace(META, task="add-jump/augmentation", decoder_attention=False),
            _paper(9.29, 13.07, "§4.4, Table 2", SEES_TEST_COMMANDS),
            AtMost(0.3),
            higher_is_better=False,
        ),
        _row(
            f"{AUGMENTATION}/seq2seq",
            "More verbs do not help a network without a memory.",
            "seq2seq, augmentation",
            replace(PLAIN, task="add-jump/augmented-batches"),
            _paper(12.26, 8.33, "§4.4, Table 2", "training accuracy above 99%"),
            AllOf((AtMost(0.35), TRAINED)),
            higher_is_better=False,
        ),
    ),
)

AROUND_RIGHT = Group(
    id="scan/around-right",
    title="A new direction in a known pattern",
    source="Lake (2019), §4.5, Table 2",
    rows=(
        _row(
            "scan/around-right/augmentation2/meta",
            "Meta-trained with two further directions, the network goes around to the right.",
            "meta seq2seq, two extra directions",
            replace(META, task="around-right/augmentation", num_extras=2),
            _paper(99.96, 0.08, "§4.5, Table 2", SEES_TEST_COMMANDS),
            AtLeast(0.995),
        ),
        _row(
            "scan/around-right/augmentation20/meta",
            "With twenty further directions the same training falls short.",
            "meta seq2seq, twenty extra directions",
            replace(META, task="around-right/augmentation", num_extras=20),
            _paper(36.33, 7.30, "§4.5, in the text", f"an informal run; {SEES_TEST_COMMANDS}"),
            Below("scan/around-right/augmentation2/meta", 0.2),
            higher_is_better=False,
        ),
        _row(
            "scan/around-right/standard/seq2seq",
            "A plain network never goes around to the right.",
            "seq2seq, standard training",
            replace(PLAIN, task="around-right/batches"),
            _paper(0.0, None, "§4.5, Table 2"),
            AtMost(0.02),
            higher_is_better=False,
        ),
        _row(
            "scan/around-right/standard/synatt",
            "Keeping syntax and meaning apart helps a little.",
            "syntactic attention, standard training",
            replace(SYNTACTIC, task="around-right/batches"),
            _paper(28.9, 34.8, CITED),
            _between(0.0, 0.7),
            steps=UPDATES_SYNTACTIC,
            eval_every=UPDATES_SYNTACTIC // 18,
        ),
    ),
)

LENGTH = Group(
    id="scan/length",
    title="Longer than anything shown",
    source="Lake (2019), §4.6, Table 2",
    rows=(
        _row(
            "scan/length/augmentation/meta",
            "Meta-training does not solve commands that are longer than all before.",
            "meta seq2seq, augmentation, 100 supports",
            replace(META, task="length/augmentation"),
            _paper(16.64, 2.10, "§4.6, Table 2"),
            _between(0.12, 0.22),
        ),
        _row(
            "scan/length/standard/seq2seq",
            "Nor does plain training.",
            "seq2seq, standard training",
            replace(PLAIN, task="length/batches"),
            _paper(7.71, 1.90, "§4.6, Table 2"),
            _between(0.04, 0.14),
            higher_is_better=False,
        ),
        _row(
            "scan/length/standard/synatt",
            "Nor does keeping syntax and meaning apart.",
            "syntactic attention, standard training",
            replace(SYNTACTIC, task="length/batches"),
            _paper(15.2, 0.7, CITED),
            _between(0.12, 0.19),
            steps=UPDATES_SYNTACTIC,
            eval_every=UPDATES_SYNTACTIC // 18,
        ),
    ),
)

META_SEQ2SEQ = System(
    id="seq2seq",
    title="Meta seq2seq",
    summary="Learns a new word from one example and uses it in sentences at once, because it was "
    "trained on many small languages in place of one.",
    groups=(MUTUAL_EXCLUSIVITY, ADD_JUMP, AROUND_RIGHT, LENGTH),
    demo=(f"{PERMUTATION}/meta", "scan/add-jump/standard/seq2seq"),
)
