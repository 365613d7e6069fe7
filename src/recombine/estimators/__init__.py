"""The methods on people's own data, with the conventions of scikit-learn."""

from recombine.estimators._attention import Attention as Attention
from recombine.estimators._base import Estimator as Estimator
from recombine.estimators._environments import agreement_levels as agreement_levels
from recombine.estimators._episode_files import (
    EpisodeFileError as EpisodeFileError,
    read_episodes as read_episodes,
    write_episodes as write_episodes,
)
from recombine.estimators._episodes import Episode as Episode
from recombine.estimators._few_shot_learners import FewShotLearner as FewShotLearner
from recombine.estimators._few_shot_tasks import Predicts as Predicts, Task as Task
from recombine.estimators._invariant_classifier import InvariantClassifier as InvariantClassifier
from recombine.estimators._invariant_methods import InvariantMethod as InvariantMethod
from recombine.estimators._invariant_regressor import InvariantRegressor as InvariantRegressor
from recombine.estimators._load import ESTIMATORS as ESTIMATORS, load as load
from recombine.estimators._meta_seq2seq import MetaSeq2Seq as MetaSeq2Seq
from recombine.estimators._modular_few_shot import ModularFewShot as ModularFewShot
from recombine.estimators._privileged_classifier import (
    PrivilegedClassifier as PrivilegedClassifier,
)
from recombine.estimators._privileged_comparison import (
    PrivilegedComparison as PrivilegedComparison,
    ScoreDifference as ScoreDifference,
)
from recombine.estimators._privileged_learner import PrivilegedMethod as PrivilegedMethod
from recombine.estimators._privileged_regressor import PrivilegedRegressor as PrivilegedRegressor
from recombine.estimators._saving import EstimatorFileError as EstimatorFileError
from recombine.estimators._skip_forecaster import (
    Forecasting as Forecasting,
    SkipForecaster as SkipForecaster,
)
from recombine.estimators._task_predictors import (
    TaskClassifier as TaskClassifier,
    TaskRegressor as TaskRegressor,
)
