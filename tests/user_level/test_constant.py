"""No private fit is worse than a constant model by more than its noise explains, in whatever units features come."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import log_loss

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import gaussian_noise_multiplier, public_generator
from skprivate.user_level._losses import EXAGGERATION

HELD_OUT = 2000
KINDS = ["plain", "units", "far", "heavy", "rare"]


def features(rng, n, d):
    """Hidden normal features, and what is given of them."""
    shared = rng.choice([0.0, 0.8])
    hidden = np.sqrt(1.0 - shared) * rng.normal(size=(n, d)) + np.sqrt(shared) * rng.normal(size=(n, 1))
    kind = rng.choice(KINDS)
    X = hidden.copy()
    if kind == "units":
        X *= 10.0 ** rng.uniform(-3, 3, size=d)
    elif kind == "far":
        X = X * 10.0 ** rng.uniform(-1, 1, size=d) + 10.0 ** rng.uniform(-1, 3, size=d)
    elif kind == "heavy":
        X = np.sign(X) * np.exp(2.0 * np.abs(X))
    elif kind == "rare":
        X[:, ::2] = (X[:, ::2] > 1.5) * np.exp(rng.normal(5, 2, size=X[:, ::2].shape))
    return hidden, X


def case(seed):
    """Held-out losses of a fit and of a constant, what clipping is known to cost, and what noise explains."""
    rng = public_generator(seed)
    n, d = int(np.exp(rng.uniform(np.log(60), np.log(6000)))), int(np.exp(rng.uniform(0, np.log(30))))
    epsilon = float(np.exp(rng.uniform(np.log(0.05), np.log(1e4 if rng.uniform() < 0.3 else 4.0))))
    adjacency = str(rng.choice(["replace-one", "add-remove"], p=[0.7, 0.3]))
    hidden, X = features(rng, n + HELD_OUT, d)
    f = hidden @ rng.normal(size=d)
    f *= rng.choice([0.0, 0.5, 1.0, 3.0]) / f.std()
    level = (2.0 if adjacency == "replace-one" else 1.0) * gaussian_noise_multiplier(epsilon, 1e-6) / n
    options = {"adjacency": adjacency, "random_state": seed}
    if seed % 2:
        return regression(rng, UserLevelSGDRegressor(epsilon, **options), X, f, n, level)
    return classification(rng, UserLevelSGDClassifier(epsilon, **options), X, f, n, level)


def regression(rng, model, X, f, n, level):
    d = X.shape[1] + 1
    y = f + rng.normal(size=len(f))
    raw = 10.0 ** rng.uniform(-4, 4) * (y + rng.choice([0.0, 100.0]))
    model.fit(X[:n], raw[:n])
    bound = 0.0
    if not model._frame.target_found:
        # The users are too few to find the target's unit, as a warning says. It has to be prepared by public numbers,
        # and what bounds the coefficients is all that bounds predictions: of rows of at most twice the typical norm.
        raw = (y - y.mean()) / y.std()
        model.fit(X[:n], raw[:n])
        bound = model.radius_**2
    found = np.mean((raw[n:] - model.predict(X[n:])) ** 2) / np.mean((raw[n:] - raw[:n].mean()) ** 2)
    # In units of the variance about the constant: least squares overfits by d/n, and votes of noise √d·ν move
    # predictions by so much where errors are as large as the target. Half of the budget may find centres and scales.
    return found, 1.0, 0.06, d / n + max(2.0 * d * d * level**2, bound)


def classification(rng, model, X, f, n, level):
    K = int(rng.choice([2, 2, 4]))
    if K == 2:
        y = (f + rng.choice([0.0, -2.0]) + rng.logistic(size=len(f)) > 0).astype(int)
    else:
        y = (f[:, None] * np.linspace(-1, 1, K) + rng.gumbel(size=(len(f), K))).argmax(axis=1)
    model.set_params(classes=range(K)).fit(X[:n], y[:n])
    share = np.bincount(y[:n], minlength=K) + 0.5
    share = share / share.sum()
    found = log_loss(y[n:], model.predict_proba(X[n:]), labels=range(K))
    constant = log_loss(y[n:], np.tile(share, (HELD_OUT, 1)), labels=range(K))
    # Where the objective is curved as half of the constant's is: ½·tr(H⁻¹ G H⁻¹)·σ² for noise σ in each coordinate.
    outputs = 1 if K == 2 else K
    rows = (model._frame.bounded(X[:n]) - model.feature_center_) / model.feature_scale_
    rows = np.column_stack([rows, np.ones(n)])
    noise = outputs * rows.shape[1] / n  # of the sample
    for each in share[:outputs]:
        curvature = 0.5 * each * (1.0 - each) * rows.T @ rows / n
        inverse = np.linalg.inv(curvature + np.diag([model.alpha_] * (rows.shape[1] - 1) + [1e-9]))
        noise += 0.5 * (model.clip_radius_ * level) ** 2 * np.trace(inverse @ curvature @ inverse)
    if model.clip_radius_ < (0.5 if K == 2 else np.sqrt(1 - 1 / K)) * np.sqrt(X.shape[1]):
        # All users are clipped at the origin: the penalty leaves noise a logit of deviation 1.
        noise += 0.125 if K == 2 else 0.5 * (1 - 1 / K)
    return found, constant, EXAGGERATION + 0.02, noise


@pytest.mark.parametrize(
    "seeds",
    # In 66 a long step was held where noise is loud: the loss was .60, of a constant .40.
    [range(10), range(10, 20), range(20, 30), [66], pytest.param(range(30, 120), marks=pytest.mark.slow)],
)
def test_held_out_loss_is_no_worse_than_a_constant_but_for_noise(seeds):
    worse = []
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, constant, bias, noise = case(seed)
        # A row is at most twice as long as is typical or assumed, so noise moves predictions by four times as much.
        if found >= constant + bias + 4.0 * noise:
            worse.append(seed)
    # One fit in a hundred meets a noise beyond four times what is usual.
    assert len(worse) <= len(seeds) // 50, worse
