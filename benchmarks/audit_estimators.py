"""Every private estimator of the package: claimed against audited ε, and a copy with half the noise.

python benchmarks/audit_estimators.py [--seconds-per-audit S]

The broken copy is given twice the budget while the claim stays: for Laplace noise exactly half the noise.
"""

import inspect
import warnings

import numpy as np
from _common import parse_args, save_figure, write_table

from skprivate.audit import audit_estimator
from skprivate.displays import AuditDisplay
from skprivate.utils.discovery import all_estimators

COLUMNS = [
    "estimator",
    "unit",
    "claimed epsilon",
    "delta",
    "design",
    "coins a fit",
    "observable",
    "audited at least",
    "verdict",
    "fits",
    "half the noise: at least",
    "half the noise",
    "its fits",
    "its seconds",
]
EPSILONS = (0.5, 1.0, 4.0)
CONFIDENCE = 0.999  # for each of some forty audits: 96 % for the whole table
RNG = np.random.default_rng(0)
N_USERS = 60


def recipe_ppm_halfspace_classifier():
    """The public rows leave two halfspaces; private rows beyond one or the other side decide between them."""
    public = np.repeat([-1.0, 1.0], 50)
    X = np.concatenate([public, [3.0, -3.0], np.zeros(14)])[:, None]
    private = np.arange(len(X)) >= public.size
    return {
        "parameters": {"strategy": "exact"},
        "fit": (X, private.astype(int)),
        "fit_params": {"private": private},
    }


def recipe_bags(regression=False):
    # A bag to each label. A regressor pays for the sum of squares as well, which tells nothing of one label among many:
    # with two columns two bags show the same label, and that is a third of the budget and no longer half.
    n = 300 if regression else 2000
    X = np.tile(np.arange(n)[:, None], 2 if regression else 1).astype(str)
    y = np.arange(n) % 2
    bounds = {"label_bounds": (0.0, 1.0)} if regression else {"classes": [0, 1]}
    parameters = {
        "delta": 0.0,
        "feature_sets": "singles",
        "categorical_features": "all",
        "min_size": 1,
        "penalty": 1.0,
        **bounds,
    }
    return {"parameters": parameters, "fit": (X, y)}


def recipe_random_bags():
    n = 2000
    parameters = {"bag_size": 1, "alpha": 1.0, "classes": [0, 1], "label_bounds": (0.0, 1.0)}
    return {"parameters": parameters, "fit": (RNG.normal(size=(n, 1)), np.arange(n) % 2)}


def recipe_users(**parameters):
    """All users at zero but those whose contributions attain the bound; the descents make one step."""
    X = np.zeros((N_USERS, 1))
    X[0], X[1] = 1e6, -1e6
    y = (X[:, 0] > 0).astype(int) if "classes" in parameters else 12345.6 * np.sign(X[:, 0])
    return {"parameters": parameters, "fit": (X, None if "tau" in parameters else y)}


def recipe_synthesizer(metric):
    parameters = {"bounds": (0.0, 1.0), "metric": metric, "resolution": 16}
    if metric == "rows":
        return {"parameters": parameters, "fit": ((np.arange(16)[:, None] + 0.5) / 16, None)}
    parameters["resolution"] = 2
    return {"parameters": parameters, "fit": (np.zeros((6, 1)), None), "neighbour": (np.ones((6, 1)), None)}


def recipe_privatizer():
    return {
        "parameters": {},
        "fit": (np.zeros((2000, 1)), None),
        "neighbour": (np.ones((2000, 1)), None),
        "claim": {"unit": "row", "adjacency": "metric", "delta": 0.0},
    }


def recipe_selector(epsilon):
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LinearRegression

    models = [
        (f"slope{w:g}", FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, w]))) for w in (1, -1)
    ]
    # Half of the users change their minds: from all for the first model to a draw.
    n = {0.5: 6, 1.0: 4}.get(epsilon, 2)
    y = np.ones(n)
    y[-1] = -1.0
    return {"parameters": {"estimators": models}, "fit": (np.ones((n, 1)), y)}


RECIPES = {
    "PPMHalfspaceClassifier": [("", recipe_ppm_halfspace_classifier)],
    "CuratedBagGAMClassifier": [("", recipe_bags)],
    "CuratedBagGAMRegressor": [("", lambda: recipe_bags(regression=True))],
    "MetricPrivatizer": [("", recipe_privatizer)],
    "RandomBagClassifier": [("", recipe_random_bags)],
    "RandomBagRegressor": [("", recipe_random_bags)],
    "UserLevelSelector": [("", recipe_selector)],
    "UserLevelMean": [("", lambda: recipe_users(tau=1e4))],
    "UserLevelSGDClassifier": [("", lambda: recipe_users(classes=[0, 1], max_iter=1))],
    "UserLevelSGDRegressor": [("", lambda: recipe_users(max_iter=1))],
    "MetricPrivateSynthesizer": [
        (" (wasserstein)", lambda: recipe_synthesizer("wasserstein")),
        (" (rows)", lambda: recipe_synthesizer("rows")),
    ],
}


def audit(cls, recipe, epsilon, seconds, observable):
    """Audit a claim on an estimator that keeps it, and on one that was given twice the budget."""
    known = inspect.signature(cls.__init__).parameters
    parameters = {name: value for name, value in recipe["parameters"].items() if name in known}
    sound, broken = (cls(**{**parameters, "epsilon": budget}) for budget in (epsilon, 2 * epsilon))
    options = {key: recipe[key] for key in ("neighbour", "fit_params") if key in recipe}
    options |= {"max_seconds": seconds, "n_runs": 10**6, "random_state": 0, "confidence": CONFIDENCE}
    options |= {"observable": observable, "epsilon": epsilon, **recipe.get("claim", {})}
    if "claim" not in recipe:
        del options["epsilon"]
        X, y = recipe["fit"]
        sound.fit(X, *(() if y is None else (y,)), **recipe.get("fit_params", {}))
        options["guarantee"] = sound.privacy_guarantee_
    return [audit_estimator(estimator, *recipe["fit"], **options) for estimator in (sound, broken)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    args = parse_args(
        __doc__.splitlines()[0],
        seconds_per_audit={"type": float, "default": 3.0},
        only={"default": ""},
        observable={"default": "all"},
    )
    rows, audits, names = [], [], []
    for name, cls in all_estimators():
        if args.only not in name:
            continue
        for variant, make in RECIPES.get(name, []):
            for epsilon in EPSILONS:
                sound, broken = audit(
                    cls,
                    make(epsilon) if inspect.signature(make).parameters.get("epsilon") else make(),
                    epsilon,
                    args.seconds_per_audit,
                    args.observable,
                )
                print(sound, "| half the noise:", broken, flush=True)
                rows.append(
                    [
                        name + variant,
                        f"{sound.unit}, {sound.adjacency}",
                        epsilon,
                        sound.claimed_delta,
                        sound.design,
                        sound.n_coins,
                        sound.observable,
                        sound.epsilon_lower_bound,
                        "VIOLATED" if sound.violated else "not refuted",
                        sound.n_fits,
                        broken.epsilon_lower_bound,
                        "caught" if broken.violated else "not caught",
                        broken.n_fits,
                        broken.seconds,
                    ]
                )
                if epsilon == 1.0:
                    audits += [sound, broken]
                    names += [f"{name}{variant}", "… half the noise"]
            if not args.only:
                write_table("audit_estimators", COLUMNS, rows)
    caught = sum(row[-3] == "caught" for row in rows)
    print(f"{caught} of {len(rows)} copies with half the noise are caught")
    if not args.only:
        save_figure(AuditDisplay.from_audits(audits, names=names).figure_, "audit_estimators")
