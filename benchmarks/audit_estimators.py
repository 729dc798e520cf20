"""Every private estimator of the package: claimed against audited ε, and a copy with half the noise.

python benchmarks/audit_estimators.py [--fits-per-audit N] [--only NAME]

The broken copy is given twice the budget while the claim stays: for Laplace noise exactly half the noise. Inputs and
public parameters are an auditor's to choose, from ε alone: each recipe says why it chooses them.
"""

import inspect
import warnings

import numpy as np
from _audit_picture import AuditDisplay
from _common import parse_args, read_table, save_figure, write_table
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, RegressorMixin

from skprivate.audit import audit_estimator
from skprivate.utils.discovery import all_estimators

COLUMNS = [
    "estimator",
    "unit",
    "claimed epsilon",
    "delta",
    "units apart",
    "audited at least",
    "verdict",
    "fits",
    "half the noise: units apart",
    "half the noise: at least",
    "half the noise",
    "p",
    "its fits",
    "its seconds",
]
EPSILONS = (0.5, 1.0, 4.0)
CONFIDENCE = 0.999  # for each of some forty audits: 96 % for the whole table
RNG = np.random.default_rng(0)


def recipe_ppm_halfspace_classifier():
    """The public rows leave two halfspaces; private rows beyond one or the other side decide between them."""
    public = np.repeat([-1.0, 1.0], 50)
    X = np.concatenate([public, [3.0, -3.0], np.zeros(14)])[:, None]
    private = np.arange(len(X)) >= public.size
    return {"parameters": {"strategy": "exact"}, "fit": (X, private.astype(int)), "fit_params": {"private": private}}


def released_sums(model):
    """Read the noisy sums of bags: all that a fit releases, without the time that predictions take."""
    bags = model.bags_
    if hasattr(bags, "label_sums"):
        return bags.label_sums
    squares = getattr(bags, "square_sum", None)
    return np.concatenate([[0.0 if squares is None else squares], *(np.ravel(t.label_sums) for t in bags.tables)])


def recipe_bags(epsilon, regression=False):
    # Two bags, so that the labels that one bit decides are in one sum. Few rows: fits are fast. A regressor pays for
    # the sum of squares as well: with two columns two bags show the same label, and that is a third of the budget.
    n = 8 if epsilon <= 1 else 2
    X, y = np.tile(np.repeat(["a", "b"], n // 2)[:, None], 2 if regression else 1), np.arange(n) % 2
    bounds = {"label_bounds": (0.0, 1.0)} if regression else {"classes": [0, 1]}
    parameters = {
        "delta": 0.0,
        "feature_sets": "singles",
        "categorical_features": "all",
        "min_size": 1,
        "penalty": 1.0,
        **bounds,
    }
    return {"parameters": parameters, "fit": (X, y), "observable": released_sums}


def recipe_random_bags(epsilon):
    n = 8 if epsilon <= 1 else 4
    parameters = {"bag_size": n if epsilon <= 1 else 1, "alpha": 1.0, "classes": [0, 1], "label_bounds": (0.0, 1.0)}
    data = RNG.normal(size=(n, 1)), np.arange(n) % 2
    return {"parameters": parameters, "fit": data, "observable": released_sums}


def recipe_users(n_users=60, **parameters):
    """All users at zero but those whose contributions attain the bound; the descents make one step, and no others."""
    X = np.zeros((n_users, 1))
    X[0], X[1] = 1e6, -1e6
    y = (X[:, 0] > 0).astype(int) if "classes" in parameters else 12345.6 * np.sign(X[:, 0])
    return {"parameters": parameters, "fit": (X, None if "tau" in parameters else y)}


def recipe_mean(epsilon):
    # Twice as many users as one coin decides: more can afford selections, which leave less for the sum that is seen,
    # and make the search for the centre longer, of which nothing is seen.
    return recipe_users({0.5: 32, 1.0: 16}.get(epsilon, 4), tau=1e4)


def recipe_synthesizer(epsilon, metric):
    parameters = {"bounds": (0.0, 1.0), "metric": metric, "resolution": 2}
    if metric == "rows":
        # One split: all of the noise is on the two cells between which rows tell; the rows that come and go have one
        # to themselves.
        X = np.full((41, 1), 0.25)
        X[-1] = 0.75
        return {"parameters": parameters, "fit": (X, None)}
    # One edge: all of the noise is on the one number that moves. The claim is per unit of distance, and a pair at a
    # claim of 1.5 is told from its double in the fewest fits; data in a box are at most 1 apart.
    parameters["resolution"] = 1
    distance = min(1.0, 1.5 / epsilon)
    return {
        "parameters": parameters,
        "fit": (np.zeros((6, 1)), None),
        "neighbour": (np.full((6, 1), distance), None),
        "distance": distance,
    }


def recipe_privatizer():
    return {
        "parameters": {},
        "fit": (np.zeros((1, 1)), None),
        "neighbour": (np.ones((1, 1)), None),
        "distance": 1.0,
        "claim": {"unit": "row", "adjacency": "metric", "delta": 0.0},
    }


class Rule(RegressorMixin, BaseEstimator):
    """Predicts one number: a candidate that costs no time."""

    def __init__(self, value=0.0):
        self.value = value

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.full(len(X), self.value)


def recipe_selector(epsilon=1.0):
    # Half of the users change their minds: from all for the first model to a draw, where permute-and-flip attains ε.
    n = {0.5: 6, 1.0: 4}.get(epsilon, 2)
    y = np.ones(n)
    y[-1] = -1.0
    models = [("one", Rule(1.0)), ("other", Rule(-1.0))]
    parameters = {"estimators": models, "predict_by": "batch"}
    return {"parameters": parameters, "fit": (np.ones((n, 1)), y), "observable": chosen}


#: Nothing is drawn but the gradient.
ONE_STEP = {"max_iter": 1, "standardize": False, "fit_intercept": False}


def chosen(model):
    return float(model.best_index_)


RECIPES = {
    "PPMHalfspaceClassifier": [("", recipe_ppm_halfspace_classifier)],
    "CuratedBagGAMClassifier": [("", recipe_bags)],
    "CuratedBagGAMRegressor": [("", lambda epsilon: recipe_bags(epsilon, regression=True))],
    "MetricPrivatizer": [("", recipe_privatizer)],
    "RandomBagClassifier": [("", recipe_random_bags)],
    "RandomBagRegressor": [("", recipe_random_bags)],
    "UserLevelSelector": [("", recipe_selector)],
    "UserLevelMean": [("", recipe_mean)],
    "UserLevelSGDClassifier": [("", lambda: recipe_users(classes=[0, 1], **ONE_STEP))],
    "UserLevelSGDRegressor": [("", lambda: recipe_users(**ONE_STEP))],
    "MetricPrivateSynthesizer": [
        (" (wasserstein)", lambda epsilon: recipe_synthesizer(epsilon, "wasserstein")),
        (" (rows)", lambda epsilon: recipe_synthesizer(epsilon, "rows")),
    ],
}


def recipe_of(make, epsilon):
    """The recipe at this ε, if it depends on it."""
    return make(epsilon) if "epsilon" in inspect.signature(make).parameters else make()


def audit(cls, recipe, epsilon, fits):
    """Audit a claim on an estimator that keeps it, and on one that was given twice the budget."""
    warnings.simplefilter("ignore")
    known = inspect.signature(cls.__init__).parameters
    parameters = {name: value for name, value in recipe["parameters"].items() if name in known}
    sound, broken = (cls(**{**parameters, "epsilon": budget}) for budget in (epsilon, 2 * epsilon))
    options = {key: recipe[key] for key in ("fit_params", "distance", "observable") if key in recipe}
    options |= {"method": "black-box", "neighbours": recipe.get("neighbour")}
    options |= {"n_runs": fits, "random_state": 0, "confidence": CONFIDENCE}
    options |= {"epsilon": epsilon, **recipe.get("claim", {})}
    if "claim" not in recipe:
        del options["epsilon"]
        X, y = recipe["fit"]
        sound.fit(X, *(() if y is None else (y,)), **recipe.get("fit_params", {}))
        options["guarantee"] = sound.privacy_guarantee_
    return [audit_estimator(estimator, *recipe["fit"], **options) for estimator in (sound, broken)]


def line(name, epsilon, distance, sound, broken):
    """A row of the table; bounds are per unit of distance, as the claim is."""
    return [
        name,
        f"{sound.unit}, {sound.adjacency}",
        epsilon,
        sound.claimed_delta,
        sound.evidence.n_units,
        sound.epsilon_lower_bound / distance,
        "VIOLATED" if sound.violated else "not refuted",
        sound.evidence.n_runs,
        broken.evidence.n_units,
        broken.epsilon_lower_bound / distance,
        "caught" if broken.violated else "not caught",
        f"{broken.p_value:.2g}",
        broken.evidence.n_runs,
        broken.evidence.seconds,
    ]


def draw():
    """Draw what was proven about each estimator at ε = 1, and about its copy with half the noise."""
    names, low, refuted = [], [], []
    for row in read_table("audit_estimators_released"):
        if float(row[2]) == 1.0:
            names += [row[0], "… half the noise"]
            low += [float(row[5]), float(row[9])]
            refuted += [row[6] == "VIOLATED", row[10] == "caught"]
    claims = np.ones(len(names))
    display = AuditDisplay(
        labels=names, achieved=low, achieved_low=low, limit=claims, quantity="epsilon", baseline=0.0, refuted=refuted
    )
    save_figure(display.plot().figure_, "audit_estimators_released")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    args = parse_args(
        __doc__.splitlines()[0],
        # Power is a matter of fits; how many a second has is one of the machine.
        fits_per_audit={"type": int, "default": 3000},
        only={"default": ""},
        jobs={"type": int, "default": 1},  # processor time is counted in each process
    )
    lines = [
        (name + variant, cls, recipe_of(make, epsilon), epsilon)
        for name, cls in all_estimators()
        if args.only in name
        for variant, make in RECIPES.get(name, [])
        for epsilon in EPSILONS
    ]
    pairs = Parallel(n_jobs=args.jobs, return_as="generator")(
        delayed(audit)(cls, recipe, epsilon, args.fits_per_audit) for _, cls, recipe, epsilon in lines
    )
    rows = []
    for (name, _, recipe, epsilon), pair in zip(lines, pairs, strict=True):
        print(*pair, sep=" | half the noise: ", flush=True)
        rows.append(line(name, epsilon, recipe.get("distance", 1.0), *pair))
    caught, refuted = (sum(cell in row for row in rows) for cell in ("caught", "VIOLATED"))
    share = np.median([row[5] / row[2] for row in rows])
    print(f"{caught} of {len(rows)} copies with half the noise are caught, {refuted} sound ones refuted;")
    print(f"audited share of the claim of the sound ones: median {share:.0%}")
    if not args.only:
        write_table("audit_estimators_released", COLUMNS, rows)
        draw()
