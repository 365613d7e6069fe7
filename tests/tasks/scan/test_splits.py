import pytest

from recombine.tasks.scan import all_examples, fingerprint, make_split

SPLITS = {
    "add-jump": (
        *(14_670, 13_204, 7_706),
        "ae3363dd3a3805b969124fd6e89311a8842df448c46c8bea383fd09886b0837c",
        "522454c6280eab957dfc4ea9579ef1d780a716ac34df09619970e1d98822d7e2",
    ),
    "add-turn-left": (
        *(21_890, 19_702, 1_208),
        "f5a78e04a9c4e99fdae675201ec6fbcd240861bdd5e9fc3e44053664206a51e3",
        "14dd6316d16204d2871678ee4bd35aba253416a9b4df36bb6dfdda153d46e549",
    ),
    "around-right": (
        *(15_225, 15_225, 4_476),
        "f2b91818e1216d5c95bf050c8d328ade7f773664fdc87e67d07f945e2134ebdc",
        "8e1297eb61d98ff61ef480e9d4641d1d8596fe21c20131a57411a3fbdfd653a9",
    ),
    "length": (
        *(16_990, 16_990, 3_920),
        "7ffb97f45029871c94bede7e723f7a4aa179eb99fe2b977a18283310422c719d",
        "3297fd0b676c391f7bc3a7385aa66a7fdf64f6f8e81ad584810c1d4ebd0eaa2c",
    ),
    "opposite-right": (
        *(15_225, 15_225, 4_476),
        "152a78134665d1ecefc7be84f9f13bad8dba880938e5a60529e3f06739ece9d1",
        "9f337575c283168ade848bdf1eeb0bdd1ab5a00a855759ac634ac44f2675d120",
    ),
    "jump-around-right": (
        *(18_528, 18_528, 1_173),
        "48179f66fd28dcea987bfcdcf27128b4a1c795cebb5a38fef62be4a33f3bac35",
        "68ad864f20ede044558e899a0e54f0308d20bf105b3c0c21c3fd4884ae66a4d4",
    ),
    "primitive-right": (
        *(15_225, 15_225, 4_476),
        "b2bb5aaafd620068a41e43d52602a6ef798fd5e2c9cddb484bc8add9baec9631",
        "666691ecf2889a4d1acdfd6d8f077c508d85390f639ae670710fa282fd908817",
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits_are_the_published_ones(name):
    lines, unique, test_lines, train_hash, test_hash = SPLITS[name]
    split = make_split(name)
    assert (len(split.train), len(set(split.train)), len(split.test)) == (lines, unique, test_lines)
    assert fingerprint(split.train) == train_hash
    assert fingerprint(split.test) == test_hash


def test_the_whole_set_is_the_published_one():
    whole = "6be4b39bc8bf3a20be810b6991250d0493e608560609db6765dd679e1ed1c98e"
    assert fingerprint(all_examples()) == whole


@pytest.mark.parametrize(
    ("name", "copies", "hashed"),
    [
        ("add-jump", 1467, "0683daacfdce23cf8ed6f5077feda21785e93ac82e0d11363a9280b7b0c6561e"),
        (
            "add-turn-left",
            2_189,
            "e0c26b51b6bba2658e02d69ad53fc15399842d57356d3551a3ed192bca0f9ad4",
        ),
    ],
)
def test_the_new_primitive_makes_a_tenth_of_the_training_lines(name, copies, hashed):
    train = make_split(name).train
    assert train.count(train[-1]) == copies == len(train) / 10
    assert fingerprint(train, unique=False) == hashed


def test_simple_is_a_seeded_partition_of_the_public_sizes():
    split = make_split("simple")
    assert (len(split.train), len(split.test)) == (16_728, 4_182)
    assert set(split.train) | set(split.test) == set(all_examples())
    assert make_split("simple") == split
    assert make_split("simple", seed=1) != split


def test_outputs_of_the_length_test_have_24_to_48_actions():
    lengths = {len(e.actions) for e in make_split("length").test}
    assert (min(lengths), max(lengths)) == (24, 48)


def test_unknown_names_are_met_with_near_ones():
    with pytest.raises(LookupError, match="add-jump"):
        make_split("add-jumps")
