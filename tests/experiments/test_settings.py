import pytest

from recombine.experiments import SettingsError, change_settings, find_row, settings_of

VARIANT = find_row("ilc/synthetic/and-mask").full


def test_changes_are_typed_and_reported():
    variant, changed = change_settings(
        VARIANT,
        ["threshold=1", "decay_at=[0.9]", "rescale=null", "steps=5", "hidden_units=256"],
    )
    assert variant.config.threshold == 1.0
    assert isinstance(variant.config.threshold, float)
    assert variant.steps == 5
    assert changed == {"threshold": 1.0, "decay_at": (0.9,), "rescale": None, "steps": 5}
    assert VARIANT.config.threshold == 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("treshold=1", "there is no setting 'treshold'; try threshold"),
        ("zzz=1", "try batch_size"),
        ("threshold", "key=value"),
        ("threshold=2", "`threshold`.*less than or equal to 1; got 2"),
        ("hidden_units=many", "`hidden_units`.*integer.*got 'many'"),
        ("hidden_units=1.5", "`hidden_units`"),
        ("style=mine", "`style`.*'thesis'"),
        ("num_envs=1", "`num_envs`.*greater than or equal to 2"),
        ("steps=0", "`steps`: expected a whole number"),
        ("steps=ten", "`steps`: expected a whole number"),
    ],
)
def test_bad_changes_say_what_was_expected(change, message):
    with pytest.raises(SettingsError, match=message):
        change_settings(VARIANT, [change])


def test_all_settings_have_names():
    assert settings_of(VARIANT)["steps"] == 930
    assert settings_of(VARIANT)["num_envs"] == 32
