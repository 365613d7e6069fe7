"""SCAN: commands in simplified English, the actions they mean, and the episodes made of them."""

from recombine.tasks.scan._assignments import (
    Assignments as Assignments,
    Slots as Slots,
    direction_slots as direction_slots,
    is_refused as is_refused,
    verb_slots as verb_slots,
)
from recombine.tasks.scan._batches import (
    AugmentedBatches as AugmentedBatches,
    ScanBatches as ScanBatches,
    augmented_batches as augmented_batches,
    standard_batches as standard_batches,
)
from recombine.tasks.scan._corpus import (
    Corpus as Corpus,
    find_rows as find_rows,
    make_corpus as make_corpus,
    make_vocabulary as make_vocabulary,
    short_examples as short_examples,
)
from recombine.tasks.scan._episodes import (
    HeldRows as HeldRows,
    ScanEpisodes as ScanEpisodes,
    add_jump_augmentation as add_jump_augmentation,
    add_jump_permutation as add_jump_permutation,
    around_right as around_right,
    longer_commands as longer_commands,
)
from recombine.tasks.scan._files import (
    fingerprint as fingerprint,
    format_line as format_line,
    load_examples as load_examples,
    parse_line as parse_line,
    save_examples as save_examples,
)
from recombine.tasks.scan._grammar import (
    ACTIONS as ACTIONS,
    DIRECTIONS as DIRECTIONS,
    VERBS as VERBS,
    WORDS as WORDS,
    Example as Example,
    all_examples as all_examples,
    meaning as meaning,
)
from recombine.tasks.scan._splits import SPLITS as SPLITS, Split as Split, make_split as make_split
