"""The rows of learning to distill trajectories."""

from recombine.experiments.distillation._rows import DISTILLATION as DISTILLATION
