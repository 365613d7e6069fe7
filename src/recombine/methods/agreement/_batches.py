"""Which examples a step sees: whole epochs over all environments, or draws from some of them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.methods.agreement._environments import LabelledEnvironments


@dataclass(frozen=True)
class Epochs:
    """A batch of every environment in every step, each example once in an epoch.

    Every epoch has a fresh order and drops the last partial batch (Neitz, thesis, App. B).
    """

    batch_size: int  # per environment

    def init(self, train: LabelledEnvironments) -> Int[Array, "envs examples"]:
        """Returns the order of an epoch, to be filled by the first step."""
        _check_batch(self.batch_size, train)
        return jnp.zeros(train.labels.shape, jnp.int32)

    def next(
        self,
        train: LabelledEnvironments,
        order: Int[Array, "envs examples"],
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Int[Array, "envs examples"], LabelledEnvironments]:
        """Returns the order of this epoch and the batches of this step."""
        envs, examples = train.labels.shape
        position = step % (examples // self.batch_size)

        def shuffle() -> Int[Array, "envs examples"]:
            keys = jr.split(key, envs)
            return jax.vmap(lambda k: jr.permutation(k, examples))(keys).astype(jnp.int32)

        order = jax.lax.cond(position == 0, shuffle, lambda: order)
        chosen = jax.lax.dynamic_slice_in_dim(
            order, position * self.batch_size, self.batch_size, axis=1
        )
        return order, _take(train, jnp.arange(envs), chosen)


@dataclass(frozen=True)
class Groups:
    """A batch of some environments in every step, environments and examples drawn independently.

    A mask then asks for the agreement of this step's group, however many environments there are.
    Nothing is shuffled, so that a step costs the same with a million examples as with a thousand.
    """

    batch_size: int  # per environment
    num_envs: int

    def init(self, train: LabelledEnvironments) -> None:
        """Remembers nothing."""
        _check_batch(self.batch_size, train)
        if not 1 <= self.num_envs <= len(train.labels):
            raise ValueError(
                f"`num_envs` is how many of the {len(train.labels)} environments a step takes, "
                f"at least 1; got {self.num_envs}"
            )

    def next(
        self,
        train: LabelledEnvironments,
        order: None,
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[None, LabelledEnvironments]:
        """Draws the batches of this step."""
        env_key, example_key = jr.split(key)
        envs, examples = train.labels.shape
        members = jnp.arange(envs)
        if self.num_envs < envs:
            members = jr.permutation(env_key, envs)[: self.num_envs]
        shape = (self.num_envs, self.batch_size)
        return None, _take(train, members, jr.randint(example_key, shape, 0, examples))


Batches = Epochs | Groups


def _take(
    train: LabelledEnvironments, envs: Int[Array, " chosen"], examples: Int[Array, "chosen batch"]
) -> LabelledEnvironments:
    rows = envs[:, None]
    return LabelledEnvironments(train.inputs[rows, examples], train.labels[rows, examples])


def _check_batch(batch_size: int, train: LabelledEnvironments) -> None:
    examples = train.labels.shape[1]
    if not 1 <= batch_size <= examples:
        raise ValueError(
            f"`batch_size` is per environment, at least 1, and must not exceed its {examples} "
            f"examples; got {batch_size}"
        )
