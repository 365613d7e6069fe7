"""Learning to distill: a teacher learns what a student should take from privileged data."""

from recombine.methods.distillation._batches import (
    Batches as Batches,
    RowOrder as RowOrder,
    Validation as Validation,
)
from recombine.methods.distillation._data import (
    Drawn as Drawn,
    Given as Given,
    PrivilegedExamples as PrivilegedExamples,
    PrivilegedSplit as PrivilegedSplit,
    Source as Source,
    count_examples as count_examples,
    take as take,
)
from recombine.methods.distillation._grid import (
    GridLearner as GridLearner,
    GridState as GridState,
)
from recombine.methods.distillation._interface import (
    BATCH_AXIS as BATCH_AXIS,
    Answer as Answer,
    Objective as Objective,
    Optimizer as Optimizer,
    Student as Student,
    Teacher as Teacher,
    TeachingLoss as TeachingLoss,
    ask as ask,
    targets_of as targets_of,
)
from recombine.methods.distillation._layers import (
    BatchStatisticsNorm as BatchStatisticsNorm,
    Convolution as Convolution,
    WeightNormLinear as WeightNormLinear,
    neighbours as neighbours,
)
from recombine.methods.distillation._learner import DistillationLearner as DistillationLearner
from recombine.methods.distillation._meta_gradient import (
    Lesson as Lesson,
    MetaGradient as MetaGradient,
    Sanitized as Sanitized,
    TeacherTraining as TeacherTraining,
    inner_loop as inner_loop,
    meta_gradient as meta_gradient,
    sanitize as sanitize,
)
from recombine.methods.distillation._objectives import (
    BinaryLabels as BinaryLabels,
    BucketLabels as BucketLabels,
    ClassLabels as ClassLabels,
    DrawnLabels as DrawnLabels,
    NumberLabels as NumberLabels,
)
from recombine.methods.distillation._optimizers import (
    SMALLEST_ROOT as SMALLEST_ROOT,
    Adam as Adam,
    Momentum as Momentum,
)
from recombine.methods.distillation._state import DistillationState as DistillationState
from recombine.methods.distillation._students import (
    CentreReadout as CentreReadout,
    LayeredStudent as LayeredStudent,
    MapStudentShape as MapStudentShape,
    MLPStudentShape as MLPStudentShape,
)
from recombine.methods.distillation._teachers import (
    AttentionShape as AttentionShape,
    AttentionTeacher as AttentionTeacher,
    ConvTeacherShape as ConvTeacherShape,
    Copy as Copy,
    MLPTeacherShape as MLPTeacherShape,
    NetworkTeacher as NetworkTeacher,
    Ready as Ready,
)
from recombine.methods.distillation._teaching_losses import (
    Divergence as Divergence,
    GatedSquaredError as GatedSquaredError,
    SquaredError as SquaredError,
    WeightedTargets as WeightedTargets,
)
from recombine.methods.distillation._views import (
    Noise as Noise,
    NoisyFrames as NoisyFrames,
    PermutedFrames as PermutedFrames,
    ShuffledRows as ShuffledRows,
)
from recombine.methods.distillation._watching import Watch as Watch
