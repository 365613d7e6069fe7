"""How hard to vary a solution is: consistency across environments, measured and bounded."""

from recombine.methods.consistency._curvature import (
    Curvature as Curvature,
    hessian_diagonal as hessian_diagonal,
    hessian_matrix as hessian_matrix,
)
from recombine.methods.consistency._diagonals import (
    diagonal_bound as diagonal_bound,
    diagonal_inconsistency as diagonal_inconsistency,
)
from recombine.methods.consistency._inconsistency import (
    Inconsistency as Inconsistency,
    inconsistency as inconsistency,
)
from recombine.methods.consistency._landscapes import Loss as Loss
from recombine.methods.consistency._learning import (
    LearningConsistency as LearningConsistency,
    learning_consistency as learning_consistency,
)
from recombine.methods.consistency._matrices import (
    determinant_ratio as determinant_ratio,
    hessian_bound as hessian_bound,
    karcher_mean as karcher_mean,
    quadratic_inconsistency as quadratic_inconsistency,
)
from recombine.methods.consistency._profile import (
    AgreementProfile as AgreementProfile,
    agreement_profile as agreement_profile,
    chance_of_leads as chance_of_leads,
)
from recombine.methods.consistency._random_gradients import (
    RandomGradientNorms as RandomGradientNorms,
    decay_base as decay_base,
    expected_masked_norm as expected_masked_norm,
)
from recombine.methods.consistency._report import (
    ConsistencyReport as ConsistencyReport,
    consistency_report as consistency_report,
)
