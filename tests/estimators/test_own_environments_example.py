import importlib.util
from pathlib import Path

PATH = Path(__file__).parents[2] / "examples" / "own_environments.py"


def test_the_example_shows_plain_training_failing_and_the_mask_succeeding():
    spec = importlib.util.spec_from_file_location("own_environments", PATH)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    plain, masked = example.compare(random_state=1).values()
    assert plain["the three hospitals"] > 0.95
    assert plain["codes unrelated to illness"] < 0.8
    assert plain["codes used the other way"] < 0.3
    assert min(masked.values()) > 0.8
