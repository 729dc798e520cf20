"""What notebooks show: promises at a glance, never rounded down."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from skprivate import UserLevelSGDRegressor
from skprivate._messages import WARNED, rounded_up, unheard, warn_caller
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger

X = np.linspace(-1, 1, 60)[:, None]


@given(st.floats(0, 1e6), st.integers(1, 8))
@example(1.0000001, 6)
@example(0.1 + 0.2, 6)
def test_prices_are_rounded_up(value, digits):
    text = rounded_up(value, digits)
    shown = Decimal(text)
    assert shown >= Decimal(repr(value))
    assert len(shown.normalize().as_tuple().digits) <= digits
    assert shown <= Decimal(repr(value)) * (1 + Decimal(10) ** (1 - digits)) + Decimal("1e-300")


def test_what_is_exact_stays_as_it_is():
    assert [rounded_up(v) for v in (1.0, 0.5, 1e-06, 0.0, 23.4, float("inf"))] == [
        "1",
        "0.5",
        "1e-06",
        "0",
        "23.4",
        "inf",
    ]


def test_a_guarantee_at_a_glance():
    guarantee = PrivacyGuarantee(1.00001, 1.0001e-6, "user", "replace-one")
    assert repr(guarantee) == "<ε=1.001, δ=1.01e-06, user>"
    assert len(repr(guarantee)) <= 30  # scikit-learn's HTML cuts longer ones
    assert "(1.00001, 1.01e-06)-differential privacy for one user (replace-one)" in str(guarantee)
    page = guarantee._repr_html_()
    assert "1.00001" in page and "1.01e-06" in page and ">1<" not in page


def test_entries_of_a_ledger_are_rounded_up():
    ledger = PrivacyLedger(epsilon=23.4, delta=1e-5, unit="user", composition="basic")
    price = {"epsilon": 23.396532641673225, "delta": 1.0000000001e-6, "rho": None, "events": []}
    ledger.charge("Fit", unit="user", adjacency="replace-one", simulated=False, **price)
    assert "epsilon 23.3966 of 23.4, delta 1.00001e-06 of 1e-05" in repr(ledger)
    assert "<td>23.4</td><td>1.001e-06</td>" in ledger._repr_html_()


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_steps_of_a_diagram_say_what_they_promised():
    model = make_pipeline(PublicScaler(), PrivateStandardScaler(0.5, delta=0.0), UserLevelSGDRegressor(1.0, max_iter=2))
    assert "ε=" not in model._repr_html_()
    page = model.fit(X, X[:, 0])._repr_html_()
    for step in model[1:]:
        caption = repr(step.privacy_guarantee_).strip("<>")
        assert f'<div class="caption">{caption}</div>' in page and caption.endswith(", row, of this step alone")
        assert caption in step._repr_html_()
    simulated = UserLevelSGDRegressor(1.0, max_iter=2, random_state=0).fit(X, X[:, 0])
    assert 'class="caption">' in simulated._repr_html_() and "row, simulated</div>" in simulated._repr_html_()


def test_an_estimator_shows_epsilon_at_its_default_too():
    assert repr(UserLevelSGDRegressor()) == repr(UserLevelSGDRegressor(1.0)) == "UserLevelSGDRegressor(epsilon=1.0)"
    assert repr(UserLevelSGDRegressor(2.0)) == "UserLevelSGDRegressor(epsilon=2.0)"
    assert repr(UserLevelSGDRegressor(loss="huber")) == "UserLevelSGDRegressor(epsilon=1.0, loss='huber')"
    with config_context(print_changed_only=False):
        assert repr(UserLevelSGDRegressor()).count("epsilon=") == 1


def test_a_warning_of_code_that_sees_private_rows_is_kept_by_no_fit():
    heard = []
    token = WARNED.set(heard)
    try:
        with unheard():
            warn_caller("of one row", UserWarning)
        with pytest.warns(UserWarning):
            warn_caller("of public numbers", UserWarning)
    finally:
        WARNED.reset(token)
    assert heard == [("UserWarning", "of public numbers")]
