"""The embedded credit data."""

import numpy as np

from skprivate.datasets import load_credit_default


def test_the_table_is_what_its_description_says():
    credit = load_credit_default()
    assert credit.data.shape == (30000, 23) and credit.data.dtype == np.float64
    assert credit.target.dtype == np.int64
    np.testing.assert_array_equal(np.bincount(credit.target), [23364, 6636])
    assert np.isfinite(credit.data).all() and (credit.data == np.round(credit.data)).all()
    assert credit.feature_names[:7] == ["limit_bal", "sex", "education", "marriage", "age", "pay_0", "pay_2"]
    for word in ("CC BY 4.0", "6 636", "make_credit_default.py"):
        assert word in credit.DESCR


def test_forms():
    credit = load_credit_default(as_frame=True)
    assert list(credit.frame.columns) == [*credit.feature_names, "default"]
    assert credit.target.name == credit.target_name == "default"
    X, y = load_credit_default(return_X_y=True)
    np.testing.assert_array_equal(X, credit.data)
    np.testing.assert_array_equal(y, credit.target)
