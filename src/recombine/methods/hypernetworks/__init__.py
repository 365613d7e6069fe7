"""Meta-learning with networks that are generated from modules, and without modules."""

from recombine.methods.hypernetworks._amortised import (
    AmortisedConfig as AmortisedConfig,
    AmortisedHyperNetwork as AmortisedHyperNetwork,
)
from recombine.methods.hypernetworks._banks import (
    BankKind as BankKind,
    DeepBank as DeepBank,
    LinearBank as LinearBank,
)
from recombine.methods.hypernetworks._closed_form import (
    RidgeHead as RidgeHead,
    RidgeHeadConfig as RidgeHeadConfig,
    solve_ridge as solve_ridge,
)
from recombine.methods.hypernetworks._descending import draw_weights as draw_weights
from recombine.methods.hypernetworks._distilling import (
    Distillation as Distillation,
    Lesson as Lesson,
    embedding_distance as embedding_distance,
    give_lesson as give_lesson,
)
from recombine.methods.hypernetworks._encoders import (
    DeepSet as DeepSet,
    EncoderConfig as EncoderConfig,
    EncoderKind as EncoderKind,
    SetTransformer as SetTransformer,
)
from recombine.methods.hypernetworks._frozen import (
    Frozen as Frozen,
    count_parameters as count_parameters,
    split_frozen as split_frozen,
)
from recombine.methods.hypernetworks._hypernetwork import (
    HyperNetwork as HyperNetwork,
    HyperNetworkConfig as HyperNetworkConfig,
    TargetWeights as TargetWeights,
    TaskEmbedding as TaskEmbedding,
    normalize_embedding as normalize_embedding,
    run_target as run_target,
)
from recombine.methods.hypernetworks._in_context import (
    Context as Context,
    InContextConfig as InContextConfig,
    InContextTransformer as InContextTransformer,
)
from recombine.methods.hypernetworks._interface import (
    Architecture as Architecture,
    Examples as Examples,
    FewShotModel as FewShotModel,
    FewShotTask as FewShotTask,
    Objective as Objective,
    TaskSource as TaskSource,
)
from recombine.methods.hypernetworks._layers import Layer as Layer
from recombine.methods.hypernetworks._learner import (
    MetaLearner as MetaLearner,
    MetaTraining as MetaTraining,
    TaskOutcomes as TaskOutcomes,
)
from recombine.methods.hypernetworks._loops import (
    InnerLoop as InnerLoop,
    InnerOptimizer as InnerOptimizer,
    MinibatchBy as MinibatchBy,
    OuterLoop as OuterLoop,
)
from recombine.methods.hypernetworks._monolithic import (
    Anil as Anil,
    Maml as Maml,
    MonolithicConfig as MonolithicConfig,
    Network as Network,
)
from recombine.methods.hypernetworks._objectives import (
    HardLabels as HardLabels,
    SoftLabels as SoftLabels,
    SquaredError as SquaredError,
    row_mean as row_mean,
)
from recombine.methods.hypernetworks._published import (
    PUBLISHED as PUBLISHED,
    ExperimentName as ExperimentName,
    LearnerName as LearnerName,
    Published as Published,
    published_settings as published_settings,
)
from recombine.methods.hypernetworks._student import (
    ModularStudent as ModularStudent,
    ModularStudentConfig as ModularStudentConfig,
)
