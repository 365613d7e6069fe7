"""Gradients that environments agree on: the AND-mask, and learning with it."""

from recombine.methods.agreement._aggregators import (
    AgreementState as AgreementState,
)
from recombine.methods.agreement._aggregators import (
    Rescale as Rescale,
)
from recombine.methods.agreement._aggregators import (
    and_mask as and_mask,
)
from recombine.methods.agreement._aggregators import (
    arithmetic_mean as arithmetic_mean,
)
from recombine.methods.agreement._aggregators import (
    min_agreement as min_agreement,
)
from recombine.methods.agreement._aggregators import (
    sign_agreement as sign_agreement,
)
from recombine.methods.agreement._environments import (
    Drawn as Drawn,
)
from recombine.methods.agreement._environments import (
    Fixed as Fixed,
)
from recombine.methods.agreement._environments import (
    LabelledEnvironments as LabelledEnvironments,
)
from recombine.methods.agreement._environments import (
    LabelledExamples as LabelledExamples,
)
from recombine.methods.agreement._environments import (
    Split as Split,
)
from recombine.methods.agreement._gradients import environment_gradients as environment_gradients
from recombine.methods.agreement._learner import (
    AgreementLearner as AgreementLearner,
)
from recombine.methods.agreement._learner import (
    AgreementTraining as AgreementTraining,
)
from recombine.methods.agreement._network import MLP as MLP
from recombine.methods.agreement._network import MLPShape as MLPShape
from recombine.methods.agreement._objectives import (
    BINARY as BINARY,
)
from recombine.methods.agreement._objectives import (
    MULTICLASS as MULTICLASS,
)
from recombine.methods.agreement._objectives import (
    Objective as Objective,
)
