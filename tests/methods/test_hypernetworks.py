"""Models: their sizes, what they generate, what they start from; and their losses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.hypernetworks import (
    PUBLISHED,
    AmortisedConfig,
    EncoderConfig,
    Frozen,
    HardLabels,
    HyperNetworkConfig,
    InnerLoop,
    LinearBank,
    ModularStudentConfig,
    MonolithicConfig,
    OuterLoop,
    SoftLabels,
    SquaredError,
    count_parameters,
    normalize_embedding,
    published_settings,
    row_mean,
    run_target,
    split_frozen,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


SIZES = {"hyperteacher": (16, 8), "preference": (490, 5), "goals": (847, 6)}
COUNTS = {  # shared and adapted
    ("hyperteacher", "linear-hnet"): (631_168, 136),
    ("hyperteacher", "deep-hnet"): (644_800, 128),
    ("hyperteacher", "anil"): (538_120, 4_104),
    ("hyperteacher", "maml"): (305_288, 305_288),
    ("preference", "linear-hnet"): (1_149_216, 133),
    ("preference", "deep-hnet"): (1_162_816, 96),
    ("preference", "anil"): (1_041_925, 2_565),
    ("preference", "maml"): (454_117, 454_117),
    ("goals", "linear-hnet"): (227_144, 30),
    ("goals", "deep-hnet"): (919_688, 24),
    ("goals", "anil"): (699_910, 3_078),
    ("goals", "maml"): (475_782, 475_782),
}


def counts(architecture):
    """The numbers of shared and of adapted parameters; nothing is computed."""

    def build(key):
        model = architecture.make(key=key)
        support = (
            jnp.zeros((4, architecture.num_inputs)),
            jnp.zeros((4, architecture.num_outputs)),
        )
        return model, model.start(*support, None, key=key)

    return tuple(count_parameters(part) for part in eqx.filter_eval_shape(build, jr.key(0)))


def test_settings_are_there_for_all_learners_and_experiments():
    assert {(e, name) for e, learners in PUBLISHED.items() for name in learners} == set(COUNTS)


@pytest.mark.parametrize(("experiment", "learner"), COUNTS)
def test_parameters_are_as_many_as_published(experiment, learner):
    inputs, outputs = SIZES[experiment]
    architecture, inner, outer = published_settings(
        experiment, learner, num_inputs=inputs, num_outputs=outputs
    )
    assert counts(architecture) == COUNTS[experiment, learner]
    assert inner.num_steps == (100 if learner == "anil" else 10)
    assert (outer.clip_norm, outer.skips) in [(1.0, True), (2.0, True), (1.0, False), (2.0, False)]


@pytest.mark.parametrize(
    ("bank", "templates", "expected"),
    [
        ("linear", 64, (1_262_336, 264)),
        ("linear", 16, (315_584, 72)),
        ("deep", 64, (648_192, 256)),
        ("deep", 16, (643_104, 64)),
    ],
)
def test_hypernetworks_of_other_sizes_too(bank, templates, expected):
    config = HyperNetworkConfig(bank=bank, num_templates=templates, adapts_bias=bank == "linear")
    assert counts(config) == expected


def test_unknown_names_are_told():
    with pytest.raises(LookupError, match="no learner is called 'reptile'; known are linear-hnet"):
        published_settings("goals", "reptile", num_inputs=1, num_outputs=1)
    with pytest.raises(LookupError, match="no experiment is called 'chess'"):
        published_settings("chess", "anil", num_inputs=1, num_outputs=1)
    for config, message in (
        (lambda: HyperNetworkConfig(bank="wide"), "`bank` must be linear or deep"),  # pyright: ignore
        (lambda: HyperNetworkConfig(width=0), "`width` must be at least 1; got 0"),
        (lambda: MonolithicConfig(adapts="body"), "`adapts` must be head or everything"),  # pyright: ignore
        (lambda: ModularStudentConfig(num_latents=0), "`num_latents` must be at least 1"),
        (lambda: EncoderConfig(kind="lstm"), "deep-set or transformer; got 'lstm'"),  # pyright: ignore
        (lambda: EncoderConfig("transformer", width=6), "multiple of `num_heads`"),
        (lambda: SquaredError("max"), "`over_outputs` must be mean or sum"),  # pyright: ignore
        (lambda: InnerLoop(num_steps=-1), "`num_steps` must be at least 0"),
        (lambda: InnerLoop(batch_size=0), "`batch_size` must be at least 1"),
        (lambda: InnerLoop(fresh=True, batch_size=4), "`fresh` steps have none"),
        (lambda: InnerLoop(optimizer="lbfgs"), "one of adamw, adam, sgd"),  # pyright: ignore
        (lambda: OuterLoop(clip_norm=-1.0), "`clip_norm` must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            config()


def test_a_linear_bank_is_linear():
    bank = LinearBank(4, 7, key=jr.key(0))
    one, other = jr.normal(jr.key(1), (2, 3, 4))
    mixed = bank(2 * one - other)
    np.testing.assert_allclose(mixed, 2 * bank(one) - bank(other), rtol=1e-5, atol=1e-6)
    wide = LinearBank(16, 4000, key=jr.key(2)).modules
    assert float(wide.std()) == pytest.approx(0.88 / 4, rel=0.02)  # truncated at two deviations
    assert float(jnp.abs(wide).max()) <= 2 / 4


def test_embeddings_are_scaled_without_projecting_their_gradient():
    rows = jnp.array([[3.0, 4.0], [0.03, 0.04]])
    used = normalize_embedding(rows)
    np.testing.assert_allclose(jnp.sqrt(jnp.mean(used**2, axis=-1)), 1.0, rtol=1e-6)
    np.testing.assert_allclose(used[0], used[1], rtol=1e-6)
    outside = jnp.array([[1.0, -2.0], [0.5, 0.0]])
    found = jax.grad(lambda e: jnp.sum(normalize_embedding(e) * outside))(rows)
    factors = jnp.sqrt(2.0) / jnp.linalg.norm(rows, axis=-1, keepdims=True)
    np.testing.assert_allclose(found, outside * factors, rtol=1e-6)
    assert jnp.isfinite(normalize_embedding(jnp.zeros((1, 3)))).all()


@pytest.mark.parametrize("num_hidden", [1, 3])
def test_a_generated_network_is_an_mlp_with_weights_over_root_fan_in(num_hidden):
    config = HyperNetworkConfig(
        num_inputs=3, num_outputs=2, num_templates=4, width=5, num_hidden=num_hidden
    )
    model = eqx.filter_jit(config.make)(key=jr.key(0))
    task = model.start(jnp.zeros((1, 3)), jnp.zeros((1, 2)), None, key=jr.key(0))
    assert task.hidden.shape == (num_hidden - 1, 4)
    task = task._replace(bias=jnp.array([10.0, 20.0]))
    inputs = jr.normal(jr.key(1), (6, 3))
    target = model.generate(task)
    assert len(target.weights) == num_hidden + 1
    rows = np.asarray(inputs)
    for number, (weight, bias) in enumerate(zip(*target, strict=True)):
        rows = rows @ np.asarray(weight) + np.asarray(bias)
        rows = rows if number == num_hidden else np.maximum(rows, 0)
    np.testing.assert_allclose(run_target(target, inputs), rows, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        model.predict(task, inputs), rows + np.array([10.0, 20.0]), rtol=1e-4, atol=1e-5
    )
    # The bias of a layer stands before its weights in what a bank writes.
    written = model.input_bank(normalize_embedding(task.input))[0]
    np.testing.assert_allclose(target.biases[0], written[:5], rtol=1e-6)
    weights = target.weights[0].reshape(-1)
    np.testing.assert_allclose(weights, written[5:] / 3**0.5, rtol=1e-5, atol=1e-6)


def test_hidden_layers_share_a_bank_and_have_rows_of_their_own():
    config = HyperNetworkConfig(num_inputs=3, num_outputs=2, num_templates=4, width=5, bank="deep")

    @jax.jit
    def generate():
        model = config.make(key=jr.key(0))
        task = model.embedding
        same = task._replace(hidden=jnp.stack([task.hidden[0], 3 * task.hidden[0]]))
        return model.generate(task).weights, model.generate(same).weights

    weights, equal = generate()
    np.testing.assert_allclose(equal[1], equal[2], rtol=1e-4, atol=1e-5)
    assert not np.allclose(weights[1], weights[2])


def test_the_students_start_is_held_fixed():
    model = ModularStudentConfig(num_inputs=3, num_outputs=2, num_latents=4, width=5).make(
        key=jr.key(0)
    )
    trained, frozen = split_frozen(model)
    assert trained.first.value is None
    assert frozen.modules is None
    assert eqx.tree_equal(eqx.combine(trained, frozen), model)
    assert count_parameters(model) == 4 * 3 * 5 + 5 * 2
    assert count_parameters(Frozen(jnp.ones(3))) == 0
    nothing = (jnp.zeros((0, 3)), jnp.zeros((0, 2)), None)
    starts = [model.start(*nothing, key=jr.key(seed)) for seed in range(2)]
    np.testing.assert_array_equal(*starts)
    redrawing = ModularStudentConfig(num_inputs=3, num_outputs=2, redraws=True).make(key=jr.key(0))
    assert not np.allclose(*(redrawing.start(*nothing, key=jr.key(seed)) for seed in range(2)))
    latent, inputs = jr.normal(jr.key(1), (4,)), jr.normal(jr.key(2), (6, 3))
    weight = np.einsum("j,jiu->iu", latent, model.modules)
    expected = np.maximum(np.asarray(inputs) @ weight / 3**0.5, 0) @ np.asarray(model.readout)
    np.testing.assert_allclose(model.predict(latent, inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["deep-set", "transformer"])
def test_encoders_do_not_care_about_order_and_count_weights_as_copies(kind):
    config = EncoderConfig(kind=kind, width=8, num_layers=1, num_heads=2)
    encode = jax.jit(lambda rows, weights: config.make(3, 5, key=jr.key(0))(rows, weights))
    rows = jr.normal(jr.key(1), (4, 3))
    plain = encode(rows, None)
    assert plain.shape == (5,)
    np.testing.assert_allclose(encode(rows[::-1], None), plain, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(encode(rows, jnp.ones(4)), plain, rtol=1e-4, atol=1e-5)
    weights = jnp.array([1.0, 2.0, 1.0, 0.0])
    copies = rows[jnp.array([0, 1, 1, 2])]
    np.testing.assert_allclose(encode(rows, weights), encode(copies, None), rtol=1e-4, atol=1e-5)
    other = encode(rows.at[3].set(99.0), weights)  # a row that does not count
    np.testing.assert_allclose(other, encode(rows, weights), rtol=1e-4, atol=1e-5)


def test_amortised_inference_depends_on_the_support():
    config = AmortisedConfig(
        HyperNetworkConfig(num_inputs=3, num_outputs=2, num_templates=4, width=5),
        EncoderConfig(width=8, num_layers=1),
    )

    @jax.jit
    def infer(sign):
        model = config.make(key=jr.key(0))
        inputs, targets = jr.normal(jr.key(1), (4, 3)), jr.normal(jr.key(2), (4, 2))
        task = model.start(inputs, sign * targets, None, key=jr.key(0))
        return task, model.predict(task, inputs)

    (one, outputs), (other, others) = infer(1.0), infer(-1.0)
    assert one.hidden.shape == (2, 4)
    assert one.bias is not None
    assert not np.allclose(one.hidden, other.hidden)
    assert not np.allclose(outputs, others)


def test_losses_are_what_they_are_called():
    logits = jnp.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    soft = jnp.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]])
    log_p = np.asarray(jax.nn.log_softmax(logits))
    rows = [
        0.2 * (np.log(0.2) - log_p[0, 0]) + 0.8 * (np.log(0.8) - log_p[0, 1]),
        -log_p[1, 0],
    ]
    assert float(SoftLabels().loss(logits, soft, None)) == pytest.approx(np.mean(rows), rel=1e-5)
    found = SoftLabels().measures(logits, soft, None)
    assert float(found["accuracy"]) == 0.5
    assert float(SoftLabels().loss(jnp.log(soft + 1e-30), soft, None)) == pytest.approx(0, abs=1e-6)
    grads = jax.grad(lambda x: SoftLabels().loss(x, soft, None))(logits)
    np.testing.assert_allclose(grads, (jax.nn.softmax(logits) - soft) / 2, rtol=1e-5, atol=1e-7)

    labels = jnp.array([1, 0])
    hard = HardLabels().measures(logits, labels, None)
    expected = -np.mean([log_p[0, 1], log_p[1, 0]])
    assert float(hard["loss"]) == pytest.approx(expected, rel=1e-5)
    assert (float(hard["accuracy"]), float(hard["all_correct"])) == (0.5, 0.0)
    first_only = HardLabels().measures(logits, labels, jnp.array([1.0, 0.0]))
    assert (float(first_only["accuracy"]), float(first_only["all_correct"])) == (1.0, 1.0)
    np.testing.assert_array_equal(HardLabels().describe(labels, 3), np.eye(3)[[1, 0]])

    targets, outputs = jnp.zeros((2, 3)), jnp.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    assert float(SquaredError().loss(outputs, targets, None)) == pytest.approx(1.25)
    assert float(SquaredError("sum").loss(outputs, targets, None)) == pytest.approx(3.75)
    found = SquaredError().measures(targets, outputs, None)
    assert float(found["power"]) == float(found["loss"])  # zeros were predicted


def test_rows_without_weight_do_not_count():
    values = jnp.array([1.0, 5.0, 99.0])
    assert float(row_mean(values, jnp.array([1.0, 1.0, 0.0]))) == 3.0
    assert float(row_mean(values, jnp.zeros(3))) == 0.0
    assert float(row_mean(values, None)) == 35.0
