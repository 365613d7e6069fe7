"""Gradients that environments agree on: the AND-mask, and learning with it."""

from recombine.methods.agreement._aggregators import (
    AgreementState as AgreementState,
    Rescale as Rescale,
    and_mask as and_mask,
    arithmetic_mean as arithmetic_mean,
    min_agreement as min_agreement,
    sign_agreement as sign_agreement,
)
from recombine.methods.agreement._environments import (
    Drawn as Drawn,
    Fixed as Fixed,
    LabelledEnvironments as LabelledEnvironments,
    LabelledExamples as LabelledExamples,
    Split as Split,
)
from recombine.methods.agreement._gradients import environment_gradients as environment_gradients
from recombine.methods.agreement._learner import (
    AgreementLearner as AgreementLearner,
    AgreementTraining as AgreementTraining,
)
from recombine.methods.agreement._network import MLP as MLP, MLPShape as MLPShape
from recombine.methods.agreement._objectives import (
    BINARY as BINARY,
    MULTICLASS as MULTICLASS,
    Objective as Objective,
)
