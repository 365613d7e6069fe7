r"""The theory's teacher, and the tasks it sets (Schug et al. 2024, multi-task teacher-student).

$$y = A^\top \mathrm{relu}(W(z)^\top x / \sqrt{16}), \qquad W(z) = \sum_m z_m \Theta_m$$

16 inputs, 16 hidden units, 4 outputs, 6 modules, no biases, no noise; inputs uniform with variance
1 and new in every step. A task draws a mask from the support, then its latent: the mask scaled to
length 1 (discrete), or `continuous_latents`. What is not the training distribution always has
continuous latents, as the authors have it, also for students trained on discrete ones; the set
`unseen_unit` has discrete ones, to tell scale from composition.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.tasks.hyperteacher._few_shot import Examples, FewShotTasks
from recombine.tasks.hyperteacher._latents import continuous_latents, unit_latents
from recombine.tasks.hyperteacher._masks import masks_of_size, masks_up_to

REACH = math.sqrt(3)  # of the inputs: uniform numbers of variance 1


class ModularTeacher(NamedTuple):
    """A network whose hidden layer is a sum of modules, drawn once for every seed."""

    modules: Float[Array, "modules inputs units"]
    readout: Float[Array, "units outputs"]

    def generate(self, latent: Float[Array, " modules"]) -> Float[Array, "inputs units"]:
        """Returns the weights of the hidden layer."""
        return jnp.tensordot(latent, self.modules, axes=1)

    def __call__(
        self, latent: Float[Array, " modules"], inputs: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Returns the targets of one task."""
        hidden = inputs @ self.generate(latent) / math.sqrt(inputs.shape[-1])
        return jax.nn.relu(hidden) @ self.readout


def draw_modular_teacher(
    key: PRNGKeyArray, *, num_modules: int, num_inputs: int, width: int, num_outputs: int
) -> ModularTeacher:
    """Draws a teacher: truncated normal weights of scale 1/√fan-in.

    The modules' fan-in is their number: they are what a latent is multiplied with.
    """
    module_key, readout_key = jr.split(key)
    modules = jr.truncated_normal(module_key, -2.0, 2.0, (num_modules, num_inputs, width))
    readout = jr.truncated_normal(readout_key, -2.0, 2.0, (width, num_outputs))
    return ModularTeacher(modules / math.sqrt(num_modules), readout / math.sqrt(width))


class TeacherStudent(eqx.Module):
    """A source of regression tasks: named sets of tasks, drawn on the device.

    Sets: `train`; `hot_k` for every k, all masks of k modules; `unseen`, all masks that are not in
    the training list, and `unseen_unit`, the same with discrete latents. The latents of a set
    without masks are not numbers. Supports with the same number of masks share one program.
    """

    masks: Bool[Array, "masks modules"] = eqx.field(converter=jnp.asarray)
    """The training support."""
    continuous: bool = eqx.field(static=True, default=True)
    num_inputs: int = eqx.field(static=True, default=16)
    width: int = eqx.field(static=True, default=16)
    num_outputs: int = eqx.field(static=True, default=4)
    num_rows: int = eqx.field(static=True, default=256)
    """Examples of a task, in each inner step and in the outer one."""
    num_query_rows: int = eqx.field(static=True, default=1024)
    """Examples that a task of a set is measured on."""

    @property
    def num_modules(self) -> int:
        """How many modules the teacher has."""
        return self.masks.shape[1]

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets."""
        hotness = tuple(f"hot_{k}" for k in range(1, self.num_modules + 1))
        return ("train", *hotness, "unseen", "unseen_unit")

    def begin(self, key: PRNGKeyArray) -> ModularTeacher:
        """Draws the teacher of a seed."""
        return draw_modular_teacher(
            key,
            num_modules=self.num_modules,
            num_inputs=self.num_inputs,
            width=self.width,
            num_outputs=self.num_outputs,
        )

    def sample(self, world: ModularTeacher, key: PRNGKeyArray, num_tasks: int) -> FewShotTasks:
        """Draws training tasks."""
        latent_key, data_key = jr.split(key)
        latents = self.sample_latents("train", latent_key, num_tasks)
        return self._tasks(world, data_key, latents, self.num_rows)

    def sample_set(
        self, world: ModularTeacher, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> FewShotTasks:
        """Draws tasks of a named set."""
        latent_key, data_key = jr.split(key)
        latents = self.sample_latents(name, latent_key, num_tasks)
        return self._tasks(world, data_key, latents, self.num_query_rows)

    def fresh(
        self, world: ModularTeacher, latent: Float[Array, " modules"], key: PRNGKeyArray
    ) -> Examples:
        """Draws new examples of a task."""
        return self._examples(world, latent, key, self.num_rows)

    def sample_latents(
        self, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> Float[Array, "tasks modules"]:
        """Draws latents of a named set."""
        mask_key, weight_key = jr.split(key)
        candidates, count = self._masks_of(name)
        chosen = candidates[jr.randint(mask_key, (num_tasks,), 0, count)]
        if name == "unseen_unit" or (name == "train" and not self.continuous):
            latents = unit_latents(chosen)
        else:
            latents = continuous_latents(weight_key, chosen)
        return jnp.where(count > 0, latents, jnp.nan)

    def _masks_of(self, name: str) -> tuple[Bool[Array, "masks modules"], Int[Array, ""]]:
        """Returns masks, and how many of them, from the first, belong to the set."""
        if name not in self.sets:
            raise LookupError(f"no set is called {name!r}; known are {', '.join(self.sets)}")
        if name.startswith("unseen"):
            every = jnp.asarray(masks_up_to(self.num_modules, self.num_modules))
            seen = jnp.any(jnp.all(every[:, None] == self.masks[None], axis=-1), axis=-1)
            return every[jnp.argsort(seen)], jnp.sum(~seen)
        if name == "train":
            found = self.masks
        else:
            hotness = int(name.removeprefix("hot_"))
            found = jnp.asarray(masks_of_size(self.num_modules, hotness))
        return found, jnp.asarray(len(found))

    def _tasks(
        self,
        teacher: ModularTeacher,
        key: PRNGKeyArray,
        latents: Float[Array, "tasks modules"],
        num_query_rows: int,
    ) -> FewShotTasks:
        def one(latent: Any, key: PRNGKeyArray) -> FewShotTasks:
            support_key, query_key = jr.split(key)
            return FewShotTasks(
                self._examples(teacher, latent, support_key, self.num_rows),
                self._examples(teacher, latent, query_key, num_query_rows),
                latent,
            )

        return jax.vmap(one)(latents, jr.split(key, len(latents)))

    def _examples(
        self, teacher: ModularTeacher, latent: Any, key: PRNGKeyArray, num_rows: int
    ) -> Examples:
        inputs = jr.uniform(key, (num_rows, self.num_inputs), minval=-REACH, maxval=REACH)
        return Examples(inputs, teacher(latent, inputs))
