"""Code of others runs on private rows before anything is paid: what it warns of is not shown."""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skprivate import UserLevelMean, UserLevelSelector
from skprivate.partitions import Blocks
from skprivate.privacy import BudgetExceededError, PrivacyLedger
from skprivate.user_level import UserLevelQueries

ODD = 7.0


def loud(values):
    """Complains of an odd entry in two ways."""
    if np.any(np.asarray(values) == ODD):
        warnings.warn("somebody is odd", UserWarning, stacklevel=1)
        np.log(np.asarray(values) - ODD)
    return values


class Loud(RegressorMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        return loud(X)[:, 0]


def loud_loss(y, predicted):
    return np.abs(y - loud(predicted))


def encoded():
    public = np.array([[0.0], [1.0], [2.0]] * 5)
    encoder = OneHotEncoder(categories=[[0.0, 1.0, 2.0]], handle_unknown="ignore", drop="first")
    return FrozenEstimator(make_pipeline(encoder, LinearRegression()).fit(public, public[:, 0]))


CANDIDATES = [[("a", Loud().fit(None)), ("b", Loud().fit(None))], [("a", encoded()), ("b", encoded())]]


def shown(run):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with np.errstate(all="warn"):
            run()
    return [str(each.message) for each in seen]


def rows(odd):
    X = np.array([[0.0], [1.0], [2.0]] * 40)
    X[7] = ODD if odd else 1.0
    return X


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("blocks", [False, True], ids=["memory", "blocks"])
@pytest.mark.parametrize("predict_by", ["user", "batch"])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("candidates", CANDIDATES, ids=["own", "encoder"])
def test_selector_shows_no_warning_of_candidates(candidates, n_jobs, predict_by, blocks):
    for loss in ("auto", loud_loss):
        found = []
        for odd in (False, True):
            ledger = PrivacyLedger(epsilon=1e-6)
            model = UserLevelSelector(candidates, loss=loss, predict_by=predict_by, n_jobs=n_jobs, ledger=ledger)
            X = rows(odd)
            table = Blocks([np.c_[X, X][:50], np.c_[X, X][50:]])

            def run(model=model, X=X, table=table):
                with pytest.raises(BudgetExceededError), parallel_config("threading"):
                    model.fit(table, 1) if blocks else model.fit(X, X[:, 0])

            found.append(shown(run))
            assert ledger.spent == (0, 0)
        assert found[0] == found[1] and not any("odd" in text or "unknown" in text for text in found[1])


def test_functions_of_rows_in_blocks_show_none():
    for odd in (False, True):
        X = rows(odd)
        assert shown(lambda X=X: UserLevelMean().fit(Blocks([X[:60], X[60:]]).map(loud))) == []


def test_queries_show_none():
    queries = UserLevelQueries(rows(True), n_queries=1, delta=1e-6, bound=10.0)
    assert shown(lambda: queries.mean(lambda own: float(loud(own)[0, 0]))) == []
