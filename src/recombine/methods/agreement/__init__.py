"""Gradients that environments agree on: the AND-mask, and learning with it."""

from recombine.methods.agreement._adversarial import (
    DANN as DANN,
    AdversarialNetwork as AdversarialNetwork,
    AdversarialShape as AdversarialShape,
    reverse_gradient as reverse_gradient,
)
from recombine.methods.agreement._aggregators import (
    AndMask as AndMask,
    and_mask as and_mask,
    arithmetic_mean as arithmetic_mean,
    geometric_mean as geometric_mean,
    xor_mask as xor_mask,
)
from recombine.methods.agreement._batches import Epochs as Epochs, Groups as Groups
from recombine.methods.agreement._conv_tally import (
    ConvTally as ConvTally,
    per_example_conv_tally as per_example_conv_tally,
)
from recombine.methods.agreement._decay import (
    DecayPlacement as DecayPlacement,
    DecayState as DecayState,
    adam_with_decay as adam_with_decay,
    decay_after as decay_after,
)
from recombine.methods.agreement._descent import (
    Descent as Descent,
    Optimizer as Optimizer,
    add_l1 as add_l1,
)
from recombine.methods.agreement._domainbed import (
    domainbed_and_mask as domainbed_and_mask,
    sand_mask as sand_mask,
)
from recombine.methods.agreement._environments import (
    Drawn as Drawn,
    Fixed as Fixed,
    LabelledEnvironments as LabelledEnvironments,
    LabelledExamples as LabelledExamples,
    Split as Split,
)
from recombine.methods.agreement._gradients import (
    accumulate_gradients as accumulate_gradients,
    environment_gradients as environment_gradients,
)
from recombine.methods.agreement._image_learner import (
    ImageAgreementLearner as ImageAgreementLearner,
    ImageData as ImageData,
    ImageTraining as ImageTraining,
    PerExampleMode as PerExampleMode,
    Relabel as Relabel,
)
from recombine.methods.agreement._joining import (
    AgreementState as AgreementState,
    Rescale as Rescale,
)
from recombine.methods.agreement._learner import (
    AgreementLearner as AgreementLearner,
    AgreementTraining as AgreementTraining,
)
from recombine.methods.agreement._masks import (
    agreement_mask as agreement_mask,
    attainable_levels as attainable_levels,
    dispute_mask as dispute_mask,
    min_agreement as min_agreement,
    sign_agreement as sign_agreement,
)
from recombine.methods.agreement._methods import (
    Found as Found,
    JoinGradients as JoinGradients,
    Method as Method,
    Pooled as Pooled,
    Problem as Problem,
    Seen as Seen,
    gradient_of as gradient_of,
)
from recombine.methods.agreement._network import (
    MLP as MLP,
    BatchNorm as BatchNorm,
    MLPShape as MLPShape,
    Network as Network,
    Running as Running,
    TrainPass as TrainPass,
    split_running as split_running,
)
from recombine.methods.agreement._objectives import (
    BINARY as BINARY,
    MULTICLASS as MULTICLASS,
    REGRESSION as REGRESSION,
    Objective as Objective,
)
from recombine.methods.agreement._penalties import (
    IRM as IRM,
    Fishr as Fishr,
    VREx as VREx,
    head_variances as head_variances,
    scale_gradients as scale_gradients,
)
from recombine.methods.agreement._per_example import (
    coupled_statistics as coupled_statistics,
    per_example_statistics as per_example_statistics,
)
from recombine.methods.agreement._resnet import (
    FastResNet as FastResNet,
    ResNetShape as ResNetShape,
)
from recombine.methods.agreement._statistics import (
    GradientStatistics as GradientStatistics,
    stacked_statistics as stacked_statistics,
    statistics_of as statistics_of,
    sum_over_devices as sum_over_devices,
)
from recombine.methods.agreement._tallied_layers import (
    Tallied as Tallied,
    split_tallies as split_tallies,
    tallied_conv as tallied_conv,
    tallied_linear as tallied_linear,
    tallied_scale_and_shift as tallied_scale_and_shift,
    tally_weights as tally_weights,
)
from recombine.methods.agreement._temporal import (
    TemporalState as TemporalState,
    cycle_environments as cycle_environments,
    temporal_and_mask as temporal_and_mask,
    temporal_and_mask_adam as temporal_and_mask_adam,
)
