"""Sparse rows: dense ones in another form, up to a public size; which entries are stored shows nowhere."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skprivate as sp
from skprivate._validation import _arrays
from skprivate.partitions import Blocks
from skprivate.preprocessing import PrivateStandardScaler, PublicOneHotEncoder
from skprivate.privacy import PrivacyLedger

rng = np.random.default_rng(0)
X = rng.binomial(3, 0.1, size=(400, 4)).astype(np.float64)
Y = (X[:, 0] > 0).astype(int)
MODELS = [
    sp.UserLevelSGDRegressor(random_state=0),
    sp.UserLevelSGDClassifier(classes=[0, 1], random_state=0),
    sp.UserLevelMean(random_state=0),
    sp.RandomBagClassifier(classes=[0, 1], random_state=0),
    sp.PPMHalfspaceClassifier(classes=[0, 1], private_label=1, random_state=0),
    PrivateStandardScaler(bounds=(0.0, 3.0), random_state=0),
]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def stored_zeros():
    """The same rows with every entry stored."""
    return sparse.csr_array((X.ravel(), np.tile(np.arange(4), 400), np.arange(0, 1601, 4)), shape=X.shape)


def shown(model, rows):
    """What a fit and a prediction show, warnings included."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(rows, Y)
        method = next((name for name in ("predict", "transform") if hasattr(model, name)), None)
        after = getattr(model, method)(rows) if method else model.mean_
    return after, [str(warning.message) for warning in heard]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_sparse_rows_are_dense_rows(model):
    dense, said = shown(model, X)
    for rows in (sparse.csr_array(X), sparse.coo_matrix(X), stored_zeros()):
        after, again = shown(model, rows)
        np.testing.assert_array_equal(after, dense)
        assert again == said


def test_sparse_columns_of_a_step():
    colours = [["red"], ["blue"], ["red"], ["green"]] * 100
    coefs = [
        make_pipeline(
            PublicOneHotEncoder([["red", "blue", "green"]], sparse_output=sparse_output),
            sp.UserLevelSGDClassifier(classes=[0, 1], random_state=0),
        )
        .fit(colours, Y)[-1]
        .coef_
        for sparse_output in (False, True)
    ]
    np.testing.assert_array_equal(*coefs)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_matrix, sparse.lil_array])
def test_sparse_blocks_are_dense_blocks(kind):
    """One after the other, as they are read."""
    cuts = [slice(0, 100), slice(100, 250), slice(250, None)]
    made = [Blocks([one(X[cut]) for cut in cuts]) for one in (np.asarray, kind)]
    for model, y in ((sp.UserLevelSGDRegressor(random_state=0), 0), (sp.UserLevelMean(random_state=0), None)):
        models = [clone(model).fit(rows, **({} if y is None else {"y": y})) for rows in made]
        coefs = [getattr(one, "coef_" if y == 0 else "mean_") for one in models]
        np.testing.assert_array_equal(*coefs)
    assert all(isinstance(block, np.ndarray) for block in made[1])


def test_the_number_of_columns_decides_whether_sparse_rows_are_refused(monkeypatch):
    """How many rows there are may be private: with users, or under add-remove."""
    monkeypatch.setattr(_arrays, "MOST_SPARSE", 3)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    messages = []
    for rows, y in ((sparse.csr_array(X), Y), (sparse.csr_array((2, 4)), [0, 1]), (stored_zeros(), Y)):
        with pytest.raises(ValueError, match=r"at most 3 columns where it is sparse.* got 4. Choose fewer") as told:
            sp.UserLevelSGDRegressor(ledger=ledger).fit(rows, y)
        messages.append(str(told.value))
    assert len(set(messages)) == 1
    assert ledger.spent == (0.0, 0.0)
    shown(sp.UserLevelMean(random_state=0), sparse.csr_array(X[:, :3]))


def test_a_lack_of_memory_does_not_tell_the_number_of_rows():
    class Huge(sparse.csr_array):
        def toarray(self, *args, **options):
            raise MemoryError(f"Unable to allocate an array with shape {self.shape}")

    with pytest.raises(MemoryError, match="give sparse rows in blocks") as told:
        sp.UserLevelMean().fit(Huge(X))
    assert "400" not in str(told.value)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
@pytest.mark.parametrize("index", [7, -1, 10**6])
def test_an_entry_outside_of_its_row_is_refused(kind, index):
    """It would be written to the row of somebody else, or nowhere near."""
    rows = kind(stored_zeros())
    if rows.format == "coo":
        rows.col[23] = index
    else:
        rows.indices[23] = index if rows.format == "csr" or index < 0 else index + 400
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    for given in (rows, Blocks([rows])):
        with pytest.raises(ValueError, match=r"^X must have indices within its shape"):
            sp.UserLevelMean(ledger=ledger).fit(given)
    assert ledger.spent == (0.0, 0.0)


def test_lists_of_a_row_that_differ_in_length_are_refused():
    """They moved the entries of all rows below."""
    rows = sparse.lil_array(stored_zeros())
    rows.rows[3] = [1, 2, 3]
    rows.data[3] = [1.0]
    for given in (rows, Blocks([rows])):
        with pytest.raises(ValueError, match=r"^X must have indices within its shape"):
            sp.UserLevelMean().fit(given)
