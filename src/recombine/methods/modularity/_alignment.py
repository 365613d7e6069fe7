r"""Module alignment: are the teacher's hidden units found in the student, in every module at once?

With $F$ the linear map from inferred to true latents, the student's modules in the teacher's
coordinates are $\tilde\Theta_m = \sum_j \mathrm{pinv}(F)_{jm} \hat\Theta_j$. Columns, one for each
module and hidden unit, are scaled to unit length over the inputs; cosines are signed. For a teacher
unit,

- *per module*: the best student unit of each module, whichever that is;
- *joint*: the best student unit of all modules together, its cosine averaged over modules;
- *max-min*: the best student unit by the worst of its modules.

Per module cannot see the failure that the theory predicts: where two groups of modules sit on
different student units it is 1. Which of the three the paper prints is not known; report joint, and
its chance level, since the best of many random units is well above zero (Schug et al. 2024).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

EPS = 1e-12


class Alignment(NamedTuple):
    """The best cosines of every teacher unit; 1 is found, `chance_alignment` is nothing found."""

    joint: Float[Array, " units"]
    per_module: Float[Array, "modules units"]
    max_min: Float[Array, " units"]
    num_dead: Int[Array, ""]
    """Student units without any weight."""

    def summary(self) -> dict[str, Float[Array, ""]]:
        """Returns mean, maximum and minimum of the three kinds, and the number of dead units."""
        found = {}
        for name in ("joint", "per_module", "max_min"):
            values = getattr(self, name)
            found[f"{name}_alignment"] = jnp.mean(values)
            found[f"{name}_alignment_max"] = jnp.max(values)
            found[f"{name}_alignment_min"] = jnp.min(values)
        return {**found, "dead_units": self.num_dead.astype(self.joint.dtype)}


def to_teacher_coordinates(
    student: Float[Array, "latents inputs width"], readout: Float[Array, "modules latents"]
) -> Float[Array, "modules inputs width"]:
    """Mixes the student's modules into those that belong to the teacher's latents.

    Args:
        student: its modules.
        readout: the map from inferred to true latents, from `fit_readout`.
    """
    return mix_modules(student, jnp.linalg.pinv(readout))


def mix_modules(
    student: Float[Array, "latents inputs width"], mixing: Float[Array, "latents modules"]
) -> Float[Array, "modules inputs width"]:
    """Mixes the student's modules as its latents are made of the teacher's; see `fit_mixing`."""
    return jnp.einsum("jm,jiw->miw", mixing, student, precision="highest")


def module_alignment(
    teacher: Float[Array, "modules inputs units"], student: Float[Array, "modules inputs width"]
) -> Alignment:
    """Compares modules that are in the same coordinates.

    Example:
        >>> import jax.random as jr
        >>> teacher = jr.normal(jr.key(0), (3, 8, 4))
        >>> alignment = module_alignment(teacher, 2 * teacher[:, :, ::-1])
        >>> round(float(alignment.joint.mean()), 3)
        1.0
    """
    if teacher.shape[:2] != student.shape[:2]:
        raise ValueError(
            f"teacher and student must have the same modules and inputs; got {teacher.shape[:2]} "
            f"and {student.shape[:2]}. Bring the student into the teacher's coordinates with "
            f"`to_teacher_coordinates`."
        )
    cosines = jnp.einsum(
        "miu,miw->muw", _unit_columns(teacher), _unit_columns(student), precision="highest"
    )
    size = jnp.sqrt(jnp.sum(jnp.square(student), axis=(0, 1)))
    return Alignment(
        joint=jnp.max(jnp.mean(cosines, axis=0), axis=-1),
        per_module=jnp.max(cosines, axis=-1),
        max_min=jnp.max(jnp.min(cosines, axis=0), axis=-1),
        num_dead=jnp.sum(size <= EPS),
    )


def chance_alignment(
    key: PRNGKeyArray,
    teacher: Float[Array, "modules inputs units"],
    width: int,
    *,
    num_draws: int = 16,
) -> dict[str, Float[Array, ""]]:
    """Returns the summary of `module_alignment` for students of random weights, averaged."""
    modules, inputs, _ = teacher.shape

    def draw(key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        student = jr.normal(key, (modules, inputs, width), teacher.dtype)
        return module_alignment(teacher, student).summary()

    summaries = jax.vmap(draw)(jr.split(key, num_draws))
    return {name: jnp.mean(values) for name, values in summaries.items()}


def chance_corrected(
    alignment: Float[Array, ""] | float, chance: Float[Array, ""] | float
) -> Float[Array, ""]:
    """Returns (alignment - chance) / (1 - chance): 0 at chance, 1 where all is found."""
    return jnp.asarray((alignment - chance) / (1 - chance))


def _unit_columns(modules: Float[Array, "modules inputs units"]) -> Array:
    length = jnp.sqrt(jnp.sum(jnp.square(modules), axis=1, keepdims=True))
    return modules / jnp.maximum(length, EPS)
