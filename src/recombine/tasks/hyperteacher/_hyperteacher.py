"""The hyperteacher: few-shot classification by networks that are made of modules.

The teacher is an MLP of three hidden layers, the first fixed and the other two generated from the
task's latent, one row of module weights for each generated layer. By default all generated weights
depend on the whole latent, as in the published experiments: there are layers times modules modules,
each of which contributes to both layers. `layer_local` has one bank for all layers and lets row `l`
make layer `l` alone.

Logits are standardized, for every task and output, over 1,000 inputs that are the same for all
tasks; targets are softmax(logits / 0.1). (Schug et al. 2024, hyperteacher.)
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.tasks.hyperteacher._few_shot import Examples, FewShotTasks
from recombine.tasks.hyperteacher._generated_teacher import (
    GeneratedTeacher,
    draw_generated_teacher,
)
from recombine.tasks.hyperteacher._latents import continuous_latents, random_masks
from recombine.tasks.hyperteacher._masks import is_connected, masks_up_to, support_rank
from recombine.tasks.hyperteacher._splits import make_split, task_codes
from recombine.tasks.hyperteacher._task_order import TaskOrder, order_tasks

NUM_REFERENCE = 1_000
"""Inputs over which a teacher's logits are standardized."""

TEMPERATURE = 0.1
"""By which standardized logits are divided before the softmax."""


class HyperteacherWorld(NamedTuple):
    """What a seed draws."""

    teacher: GeneratedTeacher
    reference: Float[Array, "reference inputs"]
    combinations: TaskOrder


class Hyperteacher(eqx.Module):
    """A source of classification tasks: named sets of tasks, drawn on the device.

    Sets: `valid` and `test`, training combinations with new inputs; `ood`, held-out combinations;
    `ood_hot_k`, combinations that were never trained with k active modules in every layer. Up to
    the largest number in training those are held-out tasks, where a set without any gives targets
    that are not numbers; beyond it any combination is new. Made by `make_hyperteacher`.
    """

    masks: Bool[Array, "masks modules"]
    order: TaskOrder
    is_random: Bool[Array, ""]  # whether every seed draws another order
    max_active: int = eqx.field(static=True)
    num_layers: int = eqx.field(static=True)
    holds_out: bool = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    has_first: bool = eqx.field(static=True)
    layer_local: bool = eqx.field(static=True)
    continuous: bool = eqx.field(static=True)
    num_support: int = eqx.field(static=True)
    num_query: int = eqx.field(static=True)

    @property
    def num_modules(self) -> int:
        """How many modules a layer has."""
        return self.masks.shape[1]

    @property
    def num_combinations(self) -> int:
        """How many tasks there are, trained or held out."""
        return self.masks.shape[0] ** self.num_layers

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets."""
        largest = int(math.log2(self.num_modules))
        counts = [2**power for power in range(largest + 1)]
        known = [k for k in counts if k > self.max_active or self.holds_out]
        held_out = ("ood",) if self.holds_out else ()
        return ("valid", "test", *held_out, *(f"ood_hot_{k}" for k in known))

    def begin(self, key: PRNGKeyArray) -> HyperteacherWorld:
        """Draws the teacher of a seed and, for the random support, what is held out."""
        teacher_key, reference_key, split_key = jr.split(key, 3)
        drawn = jr.permutation(split_key, self.num_combinations)
        order = jnp.where(self.is_random, drawn, self.order.tasks)
        teacher = draw_generated_teacher(
            teacher_key,
            num_inputs=self.num_inputs,
            num_layers=self.num_layers,
            num_modules=self.num_modules,
            width=self.width,
            num_outputs=self.num_outputs,
            has_first=self.has_first,
            layer_local=self.layer_local,
        )
        reference = self._inputs(reference_key, NUM_REFERENCE)
        return HyperteacherWorld(teacher, reference, self.order._replace(tasks=order))

    def sample(self, world: HyperteacherWorld, key: PRNGKeyArray, num_tasks: int) -> FewShotTasks:
        """Draws training tasks."""
        return self._sample(
            world, key, num_tasks, lambda k: self._pick(k, world, num_tasks, held_out=False)
        )

    def sample_set(
        self, world: HyperteacherWorld, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> FewShotTasks:
        """Draws tasks of a named set."""
        if name not in self.sets:
            raise LookupError(f"no set is called {name!r}; known are {', '.join(self.sets)}")
        if name in ("valid", "test"):
            return self.sample(world, key, num_tasks)
        if name == "ood":
            return self._sample(
                world, key, num_tasks, lambda k: self._pick(k, world, num_tasks, held_out=True)
            )
        hotness = int(name.removeprefix("ood_hot_"))
        return self._sample(
            world, key, num_tasks, lambda k: self._pick_hot(k, world, num_tasks, hotness)
        )

    def facts(self, world: HyperteacherWorld) -> dict[str, int | bool]:
        """Returns what a support can teach: numbers of tasks, rank, connectivity. On the host."""
        masks = np.asarray(self.masks)
        codes = task_codes(np.asarray(world.combinations.train), masks, self.num_layers)
        return {
            "num_train": int(world.combinations.num_train),
            "num_held_out": int(world.combinations.num_held_out),
            "rank": support_rank(codes),
            "num_modules": codes.shape[1],
            "connected": is_connected(codes),
        }

    def latents_of(self, tasks: Int[Array, " tasks"]) -> Float[Array, "tasks layers modules"]:
        """Returns the latents of numbered tasks, where active modules weigh 1."""
        return self.masks[self._digits(tasks)].astype(jnp.float32)

    def targets(
        self,
        world: HyperteacherWorld,
        latent: Float[Array, "layers modules"],
        inputs: Float[Array, "rows inputs"],
    ) -> Float[Array, "rows outputs"]:
        """Returns the teacher's probabilities for inputs of one task."""
        return jax.nn.softmax(self.standardized_logits(world, latent, inputs) / TEMPERATURE)

    def standardized_logits(
        self,
        world: HyperteacherWorld,
        latent: Float[Array, "layers modules"],
        inputs: Float[Array, "rows inputs"],
    ) -> Float[Array, "rows outputs"]:
        """Returns logits with mean 0 and standard deviation 1 over the reference inputs."""
        return world.teacher.standardized(latent, world.reference, inputs)

    def _sample(
        self,
        world: HyperteacherWorld,
        key: PRNGKeyArray,
        num_tasks: int,
        pick: Callable[[PRNGKeyArray], Bool[Array, "tasks layers modules"]],
    ) -> FewShotTasks:
        pick_key, weight_key, data_key = jr.split(key, 3)
        active = pick(pick_key)
        latents = active.astype(jnp.float32)
        if self.continuous:
            missing = jnp.isnan(latents)
            latents = continuous_latents(weight_key, active > 0)
            latents = jnp.where(missing, jnp.nan, latents)

        def one(latent: Any, key: PRNGKeyArray) -> FewShotTasks:
            inputs = self._inputs(key, self.num_support + self.num_query)
            targets = self.targets(world, latent, inputs)
            count = self.num_support
            return FewShotTasks(
                Examples(inputs[:count], targets[:count]),
                Examples(inputs[count:], targets[count:]),
                latent,
            )

        return jax.vmap(one)(latents, jr.split(data_key, num_tasks))

    def _pick(
        self, key: PRNGKeyArray, world: HyperteacherWorld, num_tasks: int, *, held_out: bool
    ) -> Float[Array, "num_tasks layers modules"]:
        return self.latents_of(world.combinations.pick(key, num_tasks, held_out=held_out))

    def _pick_hot(
        self, key: PRNGKeyArray, world: HyperteacherWorld, num_tasks: int, hotness: int
    ) -> Float[Array, "num_tasks layers modules"]:
        if hotness > self.max_active:
            shape = (num_tasks, self.num_layers)
            return random_masks(key, shape, self.num_modules, hotness).astype(jnp.float32)
        sizes = jnp.sum(self.masks, axis=1)
        tasks, is_held_out = world.combinations.tasks, world.combinations.is_held_out
        fits = jnp.all(sizes[self._digits(tasks)] == hotness, axis=-1) & is_held_out
        count = jnp.sum(fits)
        first = jnp.argsort(~fits)[jr.randint(key, (num_tasks,), 0, jnp.maximum(count, 1))]
        active = self.masks[self._digits(tasks[first])].astype(jnp.float32)
        return jnp.where(count > 0, active, jnp.nan)

    def _digits(self, tasks: Int[Array, " tasks"]) -> Int[Array, "tasks layers"]:
        num_masks = self.masks.shape[0]
        powers = jnp.asarray([num_masks**p for p in range(self.num_layers - 1, -1, -1)])
        return (tasks[:, None] // powers[None]) % num_masks

    def _inputs(self, key: PRNGKeyArray, num_rows: int) -> Float[Array, "rows inputs"]:
        return jr.uniform(key, (num_rows, self.num_inputs), minval=-1.0, maxval=1.0)


def make_hyperteacher(
    support: str = "random",
    *,
    num_modules: int = 4,
    max_active: int = 2,
    held_out: float = 0.25,
    num_hidden: int = 3,
    num_inputs: int = 16,
    num_outputs: int = 8,
    width: int = 32,
    num_support: int = 256,
    num_query: int = 256,
    continuous: bool = False,
    layer_local: bool = False,
) -> Hyperteacher:
    """Makes a source of hyperteacher tasks; the defaults are those of Schug et al. (2024).

    Args:
        support: see `SupportName`.
        num_modules: of every generated layer.
        max_active: how many of them a task may use in one layer.
        held_out: the share of all combinations, for the random support.
        num_hidden: hidden layers; all but the first are generated, or the one if there is but one.
        num_inputs: of the teacher.
        num_outputs: classes.
        width: units of a hidden layer.
        num_support: examples to adapt to.
        num_query: examples to be measured on.
        continuous: whether active modules have weights in [0.5, 1) rather than 1.
        layer_local: whether each row of the latent makes one layer.

    Example:
        >>> source = make_hyperteacher("random", num_modules=8)
        >>> source.num_combinations, int(source.order.num_held_out)
        (1296, 324)
    """
    if num_hidden < 1:
        raise ValueError(f"`num_hidden` must be at least 1; got {num_hidden}")
    masks = masks_up_to(num_modules, max_active)
    num_layers = max(num_hidden - 1, 1)
    num_combinations = len(masks) ** num_layers
    if support == "random":
        if not 0 <= held_out < 1:
            raise ValueError(f"`held_out` is a share, at least 0 and below 1; got {held_out}")
        if num_combinations >= 2**31:
            raise ValueError(
                f"{len(masks)} masks in {num_layers} layers are {num_combinations} tasks, too many "
                f"to be numbered with 32 bits; lower `max_active` or `num_hidden`"
            )
        num_held_out = math.floor(held_out * num_combinations)
        if num_held_out == num_combinations:
            raise ValueError("`held_out` leaves no task to train on")
        tasks = np.arange(num_combinations)
        train, others = np.split(tasks, [num_combinations - num_held_out])
    else:
        fixed = make_split(
            support, num_modules=num_modules, max_active=max_active, num_layers=num_layers
        )
        train, others = fixed.train, fixed.held_out
    return Hyperteacher(
        masks=jnp.asarray(masks),
        order=order_tasks(train, others, num_tasks=num_combinations),
        is_random=jnp.asarray(support == "random"),
        max_active=max_active,
        num_layers=num_layers,
        holds_out=len(others) > 0,
        num_inputs=num_inputs,
        num_outputs=num_outputs,
        width=width,
        has_first=num_hidden > 1,
        layer_local=layer_local,
        continuous=continuous,
        num_support=num_support,
        num_query=num_query,
    )
