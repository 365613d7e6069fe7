import pytest

from scripts import load_script

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def example():
    return load_script("examples/colored_digits.py")


@pytest.mark.slow
def test_the_mask_holds_up_where_plain_training_fails(example):
    found = example.compare(1, methods=("plain", "and-mask"), steps=150)
    plain, masked, blind = found["plain"], found["and-mask"], found["without colour"]
    assert plain["four printers"] > 0.95
    assert plain["a new printer"] > 0.9
    assert plain["inks swapped"] < 0.4
    assert min(masked.values()) > 0.9
    assert blind["a new printer"] == blind["inks swapped"] > 0.9


def test_the_mask_is_of_no_use_where_printers_agree_on_the_inks(example):
    found = example.compare(1, methods=("and-mask",), steps=150, hues=example.SAME_HUE)
    assert found["and-mask"]["a new printer"] > 0.9
    assert found["and-mask"]["inks swapped"] < 0.8


@pytest.mark.slow
def test_every_method_takes_part(example):
    found = example.compare(2)
    assert list(found) == [*example.METHODS, "without colour"]
    swapped = {method: scores["inks swapped"] for method, scores in found.items()}
    assert swapped["and-mask"] > 0.9
    assert max(swapped[name] for name in ("plain", "irm", "vrex", "fishr", "dann")) < 0.9
