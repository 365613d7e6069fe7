import jax.numpy as jnp
import jax.random as jr
import numpy as np

from recombine.estimators import _own_data
from recombine.estimators._own_data import make_learner
from recombine.methods.agreement import (
    MULTICLASS,
    Descent,
    Epochs,
    JoinGradients,
    LabelledEnvironments,
    MLPShape,
    and_mask,
)


def test_accuracy_is_measured_in_every_environment_on_its_first_rows(monkeypatch):
    monkeypatch.setattr(_own_data, "MEASURED_ROWS", 4)
    inputs = jr.normal(jr.key(0), (2, 6, 3))
    learner = make_learner(
        LabelledEnvironments(inputs, jnp.zeros((2, 6), jnp.int32)),
        network=MLPShape((3, 2)),
        objective=MULTICLASS,
        method=JoinGradients(and_mask(1.0)),
        batches=Epochs(6),
        optimizer=Descent(learning_rate=0.1),
    )
    state = learner.init(jr.key(1))
    weight, bias = np.asarray(state.model.weights[0]), np.asarray(state.model.biases[0])
    logits = np.asarray(inputs)[:, :4] @ weight + bias
    expected = (logits[..., 0] >= logits[..., 1]).mean(axis=1)
    measured = learner.evaluate(state, jr.key(2))
    np.testing.assert_allclose(measured["accuracy"], expected.mean())
    np.testing.assert_allclose(measured["worst_accuracy"], expected.min())
