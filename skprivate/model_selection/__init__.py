"""Splitting data without leaking who else is there, and searching within one budget."""

from skprivate.model_selection._fit_folds import fit_folds
from skprivate.model_selection._private_search import PrivateSearchCV
from skprivate.partitions import UserKFold, check_cv

__all__ = ["PrivateSearchCV", "UserKFold", "check_cv", "fit_folds"]
