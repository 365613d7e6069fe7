from scripts import load_script


def test_the_example_shows_plain_training_failing_and_the_mask_succeeding():
    example = load_script("examples/own_environments.py")
    plain, masked = example.compare(random_state=1).values()
    assert plain["the three hospitals"] > 0.95
    assert plain["codes unrelated to illness"] < 0.8
    assert plain["codes used the other way"] < 0.3
    assert min(masked.values()) > 0.8
