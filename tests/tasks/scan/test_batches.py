import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks import scan


def sample(source, count):
    @eqx.filter_jit
    def draw(source, key):
        held = source.begin(key)
        batches = jax.vmap(lambda key: source.sample(held, key))(jr.split(key, count))
        return batches, source.validation(held), source.tests(held, key)

    return jax.tree.map(np.asarray, draw(source, jr.key(0)))


def commands(source, pairs):
    tokens = pairs.inputs.tokens.reshape(-1, pairs.inputs.tokens.shape[-1])
    return [" ".join(source.vocabulary.inputs.decode(row)) for row in tokens]


def test_standard_batches_come_from_the_training_file_alone():
    source = scan.standard_batches("add-jump")
    batches, _, tests = sample(source, 200)
    assert batches.queries.inputs.tokens.shape == (200, 40, 10)
    assert batches.support.inputs.tokens.shape == (200, 0, 10)
    drawn = commands(source, batches.queries)
    with_jump = [command for command in drawn if "jump" in command]
    assert set(with_jump) == {"jump"}
    assert abs(len(with_jump) / len(drawn) - 0.1) < 0.02
    assert tests["test"].queries.inputs.lengths.shape == (1, 7706)
    assert tests["test"].support.inputs.lengths.shape == (1, 0)


def test_validation_lines_are_kept_from_training():
    source = scan.standard_batches("around-right", batch_size=1, validation_fraction=0.2)
    assert source.validation_rows is not None
    assert (source.train_rows.shape[0], source.validation_rows.shape[0]) == (12_180, 3_045)
    assert not set(source.train_rows.tolist()) & set(source.validation_rows.tolist())
    batches, validation, _ = sample(source, 10)
    assert batches.queries.inputs.lengths.shape == (10, 1)
    assert validation.queries.inputs.lengths.shape == (1, 3_045)


def test_augmented_batches_hold_jump_once_and_alone():
    source = scan.augmented_batches(max_actions=8)
    batches, _, _ = sample(source, 50)
    words, actions = source.vocabulary.inputs, source.vocabulary.outputs
    names = {*scan.VERBS, *map(str, range(1, 21))}
    means = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
    means |= {str(i): f"I_{i}" for i in range(1, 21)}
    for i in range(50):
        rows = batches.queries.inputs.tokens[i], batches.queries.outputs.tokens[i]
        pairs = [(words.decode(x), actions.decode(y)) for x, y in zip(*rows, strict=True)]
        assert [x for x, _ in pairs if "jump" in x] == [["jump"]]
        assert len({word for x, _ in pairs for word in x} & names - {"jump"}) <= 4
        for x, y in pairs:
            verbs = [word for word in x if word in names]
            assert {means[verb] for verb in verbs} == set(y) - {"I_TURN_LEFT", "I_TURN_RIGHT"}


def test_refuses_a_fraction_of_everything():
    with pytest.raises(ValueError, match="`validation_fraction`"):
        scan.standard_batches("add-jump", validation_fraction=1.0)
