"""Every private estimator of the package: claimed against audited ε, and a copy with half the noise.

python benchmarks/audit_estimators.py [--seconds-per-audit S]

The broken copy is given twice the budget while the claim stays: for Laplace noise exactly half the noise.
"""

import inspect
import time
import warnings

import numpy as np
from _common import parse_args, save_figure, write_table
from sklearn.base import BaseEstimator

from skprivate.audit import audit_estimator
from skprivate.displays import AuditDisplay
from skprivate.utils.discovery import all_estimators

COLUMNS = [
    "estimator",
    "unit",
    "claimed epsilon",
    "delta",
    "audited at least",
    "verdict",
    "half the noise: at least",
    "its delta, at least (claimed)",
    "half the noise",
    "fits a side",
]
EPSILONS = (0.5, 1.0, 4.0)
CONFIDENCE = 0.999  # for each of some forty audits: 96 % for the whole table
RNG = np.random.default_rng(0)


def categories(n):
    return RNG.integers(0, 2, size=(n, 1))


def recipe_ppm_halfspace_classifier():
    X = np.array([[-1.0], [-0.5], [0.5], [1.0], [0.0]])
    private = np.array([False, False, False, False, True])
    far = X.copy()
    far[-1] = 9.0
    return {
        "parameters": {"strategy": "exact"},
        "fit": (X, private.astype(int)),
        "neighbour": (far, private.astype(int)),
        "fit_params": {"private": private},
    }


def delta_found(audit):
    """δ shown and δ claimed at the ε of the profile that was tested."""
    if audit.delta_lower_bound is None:
        return "–"
    return f"{audit.delta_lower_bound:.3f} ({audit.profile_delta:.3f} at ε = {audit.profile_epsilon:.3g})"


def recipe_bags(regression=False):
    X = categories(12)
    y = RNG.random(12) if regression else RNG.integers(0, 2, size=12)
    X[0] = 1
    y[0], other = 0, y.copy()
    other[0] = 1
    bounds = {"label_bounds": (0.0, 1.0)} if regression else {"classes": [0, 1]}
    parameters = {
        "delta": 0.0,
        "feature_sets": "singles",
        "categorical_features": "all",
        "penalty": 0.1,
        **bounds,
    }
    return {"parameters": parameters, "fit": (X, y), "neighbour": (X, other)}


def recipe_user_level_mean():
    X = 1e-3 * RNG.normal(size=(120, 1))
    other = X.copy()
    X[-1], other[-1] = -100.0, 100.0
    return {"parameters": {"tau": 1.0}, "fit": (X, None), "neighbour": (other, None)}


def recipe_user_level_sgd(classifier):
    X = np.hstack([RNG.normal(size=(120, 1))])
    y = X[:, 0] + 0.1 * RNG.normal(size=120)
    X[-1] = 3.0
    y[-1], other = -50.0, y.copy()
    other[-1] = 50.0
    if classifier:
        y, other = (y > 0).astype(int), (other > 0).astype(int)
        return {"parameters": {"classes": [0, 1]}, "fit": (X, y), "neighbour": (X, other)}
    return {"parameters": {}, "fit": (X, y), "neighbour": (X, other)}


def recipe_synthesizer(metric):
    X = np.zeros((6, 1))
    other = X.copy()
    if metric == "wasserstein":
        other[:] = 1.0  # Wasserstein distance 1
    else:
        other = other[:-1]
    return {
        "parameters": {"bounds": (0.0, 1.0), "metric": metric, "resolution": 4},
        "fit": (X, None),
        "neighbour": (other, None),
        "statistic": lambda model: np.asarray(model.measure_.weights).ravel(),
    }


class ReleasedRow(BaseEstimator):
    """A privatizer whose output, not whose fit, is the release."""

    def __init__(self, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X, y=None):
        from skprivate import MetricPrivatizer

        self.row_ = MetricPrivatizer(epsilon=self.epsilon, random_state=self.random_state).fit(X).transform(X)
        return self


def recipe_privatizer():
    return {
        "class": ReleasedRow,
        "parameters": {},
        "fit": (np.zeros((1, 1)), None),
        "neighbour": (np.ones((1, 1)), None),
        "claim": {"unit": "row", "adjacency": "metric", "delta": 0.0},
    }


def recipe_random_bags(regression=False):
    X = RNG.normal(size=(12, 1))
    y = np.zeros(12)
    if not regression:
        y = np.tile([0, 1], 6)
    X[0], y[0] = 6.0, 0
    other = y.copy()
    other[0] = 1
    parameters = {"bag_size": 2, "alpha": 0.1, "classes": [0, 1], "label_bounds": (0.0, 1.0)}
    return {"parameters": parameters, "fit": (X, y), "neighbour": (X, other)}


def recipe_selector():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LinearRegression

    recipe = recipe_user_level_sgd(False)
    models = [
        (f"slope{w:g}", FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, w]))) for w in (1, -1)
    ]
    X, y = np.array([[1.0], [1.0]]), np.array([1.0, 1.0])
    return {
        **recipe,
        "parameters": {"estimators": models},
        "fit": (X, y),
        "neighbour": (X, np.array([1.0, -1.0])),
    }


RECIPES = {
    "PPMHalfspaceClassifier": [("", recipe_ppm_halfspace_classifier)],
    "CuratedBagGAMClassifier": [("", recipe_bags)],
    "CuratedBagGAMRegressor": [("", lambda: recipe_bags(regression=True))],
    "MetricPrivatizer": [("", recipe_privatizer)],
    "RandomBagClassifier": [("", recipe_random_bags)],
    "RandomBagRegressor": [("", lambda: recipe_random_bags(regression=True))],
    "UserLevelSelector": [("", recipe_selector)],
    "UserLevelMean": [("", recipe_user_level_mean)],
    "UserLevelSGDClassifier": [("", lambda: recipe_user_level_sgd(True))],
    "UserLevelSGDRegressor": [("", lambda: recipe_user_level_sgd(False))],
    "MetricPrivateSynthesizer": [
        (" (wasserstein)", lambda: recipe_synthesizer("wasserstein")),
        (" (rows)", lambda: recipe_synthesizer("rows")),
    ],
}


def generic():
    X = RNG.normal(size=(60, 2))
    return {"parameters": {}, "fit": (X, (X[:, 0] > 0).astype(int))}


def runs_that_fit(estimator, recipe, seconds):
    X, y = recipe["fit"]
    targets = () if y is None else (y,)

    def fit():
        estimator.fit(X, *targets, **recipe.get("fit_params", {}))

    fit()
    start = time.process_time()
    for _ in range(5):
        fit()
    return int(np.clip(seconds / (2.4 * (time.process_time() - start) / 5), 200, 2500))


def audit(cls, recipe, epsilon, seconds):
    """Audit a claim on an estimator that keeps it, and on one that was given twice the budget."""
    cls = recipe.get("class", cls)
    known = inspect.signature(cls.__init__).parameters
    parameters = {name: value for name, value in recipe["parameters"].items() if name in known}
    sound, broken = (cls(**{**parameters, "epsilon": budget}) for budget in (epsilon, 2 * epsilon))
    options = {key: recipe[key] for key in ("neighbour", "fit_params", "statistic") if key in recipe}
    n_runs = runs_that_fit(sound, recipe, seconds)
    options |= {"n_runs": n_runs, "random_state": 0, "confidence": CONFIDENCE}
    if "claim" in recipe:
        options |= {**recipe["claim"], "epsilon": epsilon}
    else:
        options["guarantee"] = sound.privacy_guarantee_
    return [audit_estimator(estimator, *recipe["fit"], **options) for estimator in (sound, broken)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    args = parse_args(
        __doc__.splitlines()[0], seconds_per_audit={"type": float, "default": 8.0}, only={"default": ""}
    )
    rows, audits, names = [], [], []
    for name, cls in all_estimators():
        if "epsilon" not in inspect.signature(cls.__init__).parameters or args.only not in name:
            continue
        for variant, make in RECIPES.get(name, [("", generic)]):
            for epsilon in EPSILONS:
                try:
                    sound, broken = audit(cls, make(), epsilon, args.seconds_per_audit)
                except Exception as error:
                    print(f"{name}{variant}: {type(error).__name__}: {error}", flush=True)
                    break
                print(sound, "| half the noise:", broken, flush=True)
                rows.append(
                    [
                        name + variant,
                        f"{sound.unit}, {sound.adjacency}",
                        epsilon,
                        sound.claimed_delta,
                        sound.epsilon_lower_bound,
                        "VIOLATED" if sound.violated else "not refuted",
                        broken.epsilon_lower_bound,
                        delta_found(broken),
                        "caught" if broken.violated else "not caught",
                        sound.n_runs,
                    ]
                )
                if epsilon == 1.0:
                    audits += [sound, broken]
                    names += [f"{name}{variant}", "… half the noise"]
            if not args.only:
                write_table("audit_estimators", COLUMNS, rows)
    if not args.only:
        save_figure(AuditDisplay.from_audits(audits, names=names).figure_, "audit_estimators")
