"""One AND-mask step: against a plain step, and against one backward pass per environment.

The last is how the published code works: a loop in Python over the environments.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from _measure import side_by_side

from recombine.experiments import find_row
from recombine.methods.agreement import BINARY, and_mask, environment_gradients

STEPS = 10


def measure() -> list[dict]:
    config = find_row("ilc/synthetic/and-mask").full.config
    learner = find_row("ilc/synthetic/and-mask").make_learner(config, 930)
    state = eqx.filter_jit(lambda who, key: who.init(key))(learner, jr.key(0))
    rule = optax.chain(and_mask(config.threshold, rescale="tensor"), optax.adam(1e-3))
    plain = optax.adam(1e-3)
    train = state.drawn.train
    batches = (train.inputs[:, : config.batch_size], train.labels[:, : config.batch_size])
    pooled = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batches)

    def loss(model, batch):
        inputs, labels = batch
        return jnp.mean(jax.vmap(BINARY.loss)(jax.vmap(model)(inputs), labels))

    def masked_step(carry, _):
        model, optimizer = carry
        _, grads = environment_gradients(loss, model, batches)
        updates, optimizer = rule.update(grads, optimizer, model)
        return (eqx.apply_updates(model, updates), optimizer), None

    def plain_step(carry, _):
        model, optimizer = carry
        updates, optimizer = plain.update(jax.grad(loss)(model, pooled), optimizer, model)
        return (eqx.apply_updates(model, updates), optimizer), None

    @partial(jax.jit, static_argnums=0)
    def scan(step, carry):
        return jax.lax.scan(step, carry, None, length=STEPS)[0]

    one_gradient = jax.jit(jax.grad(loss))
    join = jax.jit(lambda grads, optimizer, model: rule.update(grads, optimizer, model))

    def one_by_one():
        model, optimizer = state.model, rule.init(state.model)
        for _ in range(STEPS):
            grads = []
            for env in range(config.num_envs):
                grads.append(one_gradient(model, (batches[0][env], batches[1][env])))
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *grads)
            updates, optimizer = join(stacked, optimizer, model)
            model = eqx.apply_updates(model, updates)
        jax.block_until_ready(model)

    masked_start = (state.model, rule.init(state.model))
    plain_start = (state.model, plain.init(state.model))
    times = side_by_side(
        {
            "and-mask": lambda: jax.block_until_ready(scan(masked_step, masked_start)),
            "plain": lambda: jax.block_until_ready(scan(plain_step, plain_start)),
            "one by one": one_by_one,
        },
        rounds=5,
    )
    times = {name: taken / STEPS for name, taken in times.items()}
    size = f"{config.num_envs} environments of {config.batch_size}"
    return [
        {
            "name": f"AND-mask step, {size}",
            "seconds": times["and-mask"],
            "against": against,
            "against_seconds": times[key],
            "ratio": times["and-mask"] / times[key],
            "target": "",
        }
        for key, against in (
            ("plain", "plain step, same examples"),
            ("one by one", "one backward pass per environment, from Python"),
        )
    ]
