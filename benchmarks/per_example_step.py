"""One AND-mask step with every example its own environment, against a plain step.

All ways of getting there side by side: one backward pass that counts signs as it goes (ours), a
gradient per example with `vmap`, and one backward pass per example called from Python, which is how
the published code works. On an accelerator the network and the batch are those of the CIFAR-10
rows; on a CPU they are small, to be done in a minute.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from _measure import side_by_side

from recombine.methods.agreement import (
    ResNetShape,
    and_mask,
    per_example_statistics,
    stacked_statistics,
)

STEPS = 10
THRESHOLD = 0.2
MASKED = optax.chain(and_mask(THRESHOLD, rescale="tensor"), optax.adam(5e-4))
PLAIN = optax.adam(5e-4)


def measure() -> list[dict]:
    on_cpu = jax.default_backend() == "cpu"
    batch, width = (16, 0.125) if on_cpu else (80, 1.0)
    image_key, label_key, model_key = jr.split(jr.key(0), 3)
    images = jr.normal(image_key, (batch, 32, 32, 3))
    labels = jr.randint(label_key, (batch,), 0, 10)
    models = {norm: ResNetShape(width=width, norm=norm)(model_key) for norm in ("batch", "group")}

    def losses(model, *, frozen=False):
        logits, statistics = model(images, frozen=frozen)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels), statistics

    def plain(model):
        return jax.grad(lambda model: jnp.mean(losses(model)[0]))(model)

    def one_pass(model):
        return per_example_statistics(losses, model)[2]

    def one_pass_frozen(model):
        return per_example_statistics(partial(losses, frozen=True), model)[2]

    def one_gradient_each(model):
        _, statistics = losses(model)

        def loss(model, image, label):
            logits, _ = model(image[None], statistics or None)
            return optax.softmax_cross_entropy_with_integer_labels(logits[0], label)

        each = jax.vmap(jax.grad(loss), (None, 0, 0))(model, images, labels)
        return stacked_statistics(each)

    ways = {
        "plain": (plain, PLAIN, "batch"),
        "one pass": (one_pass, MASKED, "batch"),
        "one pass, frozen": (one_pass_frozen, MASKED, "batch"),
        "vmap": (one_gradient_each, MASKED, "batch"),
        "plain, group": (plain, PLAIN, "group"),
        "one pass, group": (one_pass, MASKED, "group"),
    }
    programs, memory = {}, {}
    for name, (gradient, rule, norm) in ways.items():
        start = (models[norm], rule.init(models[norm]))
        programs[name] = partial(_steps(gradient, rule).lower(start).compile(), start)
        memory[name] = _peak_bytes(programs[name].func)
    calls = {name: partial(_finish, program) for name, program in programs.items()}
    calls["one by one"] = partial(_one_by_one, losses, models["batch"], batch)
    times = {name: t / STEPS for name, t in side_by_side(calls, rounds=5).items()}
    return _lines(times, memory, f"{batch} examples of their own, {width:g} x the width")


def _steps(gradient: Any, rule: Any) -> Any:
    """Returns a program that makes `STEPS` steps."""

    def step(carry, _):
        model, state = carry
        updates, state = rule.update(gradient(model), state, model)
        return (eqx.apply_updates(model, updates), state), None

    return jax.jit(lambda start: jax.lax.scan(step, start, None, length=STEPS)[0])


def _finish(program: Any) -> None:
    jax.block_until_ready(program())


def _one_by_one(losses: Any, model: Any, batch: int) -> None:
    """One forward pass, then a backward pass for every example, each called from Python."""
    state = MASKED.init(model)
    for _ in range(STEPS):
        pull = _forward(losses, model)
        grads = [_backward(pull, jnp.zeros(batch).at[index].set(1.0)) for index in range(batch)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *grads)
        updates, state = _update(stacked, state, model)
        model = eqx.apply_updates(model, updates)
    jax.block_until_ready(model)


@partial(jax.jit, static_argnums=0)
def _forward(losses: Any, model: Any) -> Any:
    return jax.vjp(lambda model: losses(model)[0], model)[1]


@jax.jit
def _backward(pull: Any, one_hot: jax.Array) -> Any:
    return pull(one_hot)[0]


@jax.jit
def _update(grads: Any, state: Any, model: Any) -> Any:
    return MASKED.update(grads, state, model)


def _peak_bytes(compiled: Any) -> int:
    """Returns what a program needs at once, by the compiler's own account."""
    needs = compiled.memory_analysis()
    return (
        needs.argument_size_in_bytes
        + needs.output_size_in_bytes
        + needs.temp_size_in_bytes
        - needs.alias_size_in_bytes
    )


def _lines(times: dict[str, float], memory: dict[str, int], size: str) -> list[dict]:
    pairs = (
        ("one pass", "plain", "plain step, same examples", "at most 3, aim 1.5"),
        ("one pass, frozen", "plain", "plain step, same examples", "at most 3, aim 1.5"),
        ("one pass, group", "plain, group", "plain step, same examples", "at most 3, aim 1.5"),
        ("one pass, frozen", "vmap", "a gradient per example with vmap", ""),
        ("one pass", "one by one", "one backward pass per example, from Python", ""),
    )
    norms = {
        "one pass": "batch normalisation, split",
        "one pass, frozen": "batch normalisation, frozen",
        "one pass, group": "group normalisation",
    }
    lines = [
        {
            "name": f"AND-mask step, {size}, {norms[ours]}",
            "seconds": times[ours],
            "against": against,
            "against_seconds": times[theirs],
            "ratio": times[ours] / times[theirs],
            "target": target,
        }
        for ours, theirs, against, target in pairs
    ]
    return lines + [
        {
            "name": f"memory of an AND-mask step, {size}, {norms[ours]}",
            "bytes": memory[ours],
            "against": against,
            "against_bytes": memory[theirs],
            "ratio": memory[ours] / memory[theirs],
            "target": "at most 1.5" if target else "",
        }
        for ours, theirs, against, target in pairs
        if theirs in memory
    ]
