"""All rows of the system, in the order of the thesis."""

from recombine.experiments._row import System
from recombine.experiments.agreement._ablation_rows import ABLATIONS
from recombine.experiments.agreement._cifar_rows import CIFAR_CLEAN, CIFAR_NOISE, CIFAR_RANDOM
from recombine.experiments.agreement._cloning_rows import CLONING
from recombine.experiments.agreement._correlation_rows import CORRELATIONS
from recombine.experiments.agreement._environment_rows import ENVIRONMENTS
from recombine.experiments.agreement._search_rows import SEARCHES
from recombine.experiments.agreement._synthetic_rows import AND_MASK, PLAIN, SYNTHETIC
from recombine.experiments.agreement._theory_rows import LINREG, THEORY

AGREEMENT = System(
    id="ilc",
    title="Agreement and consistency",
    summary="Keeps only the gradient that environments agree on (AND-mask), so that what is "
    "learned holds in environments never seen.",
    groups=(
        *(THEORY, LINREG),
        *(SYNTHETIC, ABLATIONS, SEARCHES, ENVIRONMENTS, CORRELATIONS),
        *(CIFAR_RANDOM, CIFAR_CLEAN, CIFAR_NOISE, CLONING),
    ),
    demo=(AND_MASK, PLAIN),
)
