"""The methods on people's own data, with the conventions of scikit-learn."""

from recombine.estimators._base import Estimator as Estimator
from recombine.estimators._environments import agreement_levels as agreement_levels
from recombine.estimators._invariant_classifier import InvariantClassifier as InvariantClassifier
from recombine.estimators._load import ESTIMATORS as ESTIMATORS
from recombine.estimators._load import load as load
from recombine.estimators._saving import EstimatorFileError as EstimatorFileError
