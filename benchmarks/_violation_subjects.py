"""What `find_violation` is pointed at: the package's private estimators, and known faults of an older commit."""

from itertools import permutations

import numpy as np

import skprivate as sp


def kilometres(first, second):
    """Great-circle distance of the first places, in degrees of latitude and longitude; rounded up."""
    (a, b), (c, d) = (np.radians(np.asarray(side.X, dtype=float)[0]) for side in (first, second))
    half = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    return 2 * 6371.0088 * float(np.arcsin(np.sqrt(min(half, 1.0)))) * (1 + 1e-9) + 1e-9


def state_pairs(states, distances):
    """Each state against each other one, again and again: there are no more neighbours."""
    X = np.array(states, dtype=object)[:, None]
    couples = list(permutations(range(len(states)), 2)) * 4
    return [((X[[i]],), (X[[j]],), float(distances[i][j])) for i, j in couples]


def candidates():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LinearRegression

    return [(f"slope{w:g}", FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, w]))) for w in (1, -1)]


def current_subjects():
    """Every private estimator, set up in each way that draws by another mechanism, with the arguments of the search."""
    line = np.linspace(0.0, 1.0, 16)[:, None]
    choice = {"X": np.linspace(-1.0, 1.0, 12)[:, None], "y": np.linspace(-1.0, 1.0, 12)}
    colours = np.array(["red", "green", "blue", "red"], dtype=object)[:, None]
    letters = np.array([["a", 0.5], ["b", 0.1], ["c", 0.9]], dtype=object)
    matrix = [[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]]
    finite = {"metric": "precomputed", "distances": matrix, "states": ["a", "b", "c"]}
    among_states = {"pairs": state_pairs(["a", "b", "c"], matrix), "settings": [{}]}
    parents = {"a": "r", "b": "r", "c": "s", "r": "t", "s": "t"}
    tree = sp.metric.tree_distances(parents, ["a", "b", "c"])
    degrees = {"X": np.array([[48.0, 11.0]]), "distance": kilometres, "settings": [{}]}
    halfspaces, gam = sp.PPMHalfspaceClassifier, sp.CuratedBagGAMClassifier
    regressor, classifier = sp.UserLevelSGDRegressor, sp.UserLevelSGDClassifier
    privatizer, synthesizer = sp.MetricPrivatizer, sp.MetricPrivateSynthesizer
    search, steps = sp.model_selection.PrivateSearchCV, sp.preprocessing
    unit = {"bounds": (0.0, 1.0)}
    far = {"adjacency": "add-remove", "n_users": 30}
    few = {"feature_sets": [(0,), (0, 1)], "max_iter": 50}  # crosses of a thousand features take minutes
    plain = {"loss": "squared", "label_bounds": (0.0, 1.0), **few}
    plane = {"X": np.stack([line[:, 0], line[::-1, 0] ** 2], axis=1), "y": line[:, 0]}
    two, three = ({**plane, "y": np.arange(16) % k} for k in (2, 3))
    named = {"strategy": "most_frequent", "categories": ["red", "green", "blue"]}
    transport = {**unit, "metric": "wasserstein", "resolution": 4}
    return {
        "PPMHalfspaceClassifier": (halfspaces(), {}),
        "PPMHalfspaceClassifier, add-remove": (halfspaces(adjacency="add-remove", classes=[0, 1]), {}),
        "PPMHalfspaceClassifier, greedy, weights, calibrated": (
            halfspaces(
                classes=[0, 1],
                private_label=1,
                strategy="greedy",
                class_weight={0: 1.0, 1: 3.7},
                calibration_fraction=0.3,
            ),
            {},
        ),
        "CuratedBagGAMClassifier": (gam(classes=[0, 1], **few), two),
        "CuratedBagGAMClassifier, Laplace": (gam(classes=[0, 1], **few, mechanism="laplace"), two),
        "CuratedBagGAMRegressor": (sp.CuratedBagGAMRegressor(**plain), plane),
        "CuratedBagGAMRegressor, Laplace": (sp.CuratedBagGAMRegressor(**plain, mechanism="laplace"), plane),
        "CuratedBagGAMRegressor, Poisson": (
            sp.CuratedBagGAMRegressor(loss="poisson", label_bounds=(0.0, 9.0), **few),
            plane,
        ),
        "RandomBagClassifier": (sp.RandomBagClassifier(classes=[0, 1]), two),
        "RandomBagClassifier, overlapping bags": (
            sp.RandomBagClassifier(classes=[0, 1, 2], bag_size=3, disjoint=False),
            three,
        ),
        "RandomBagRegressor": (sp.RandomBagRegressor(label_bounds=(0.0, 1.0)), plane),
        "RandomBagRegressor, range chosen": (sp.RandomBagRegressor(bag_size=3, disjoint=False), plane),
        "UserLevelSGDRegressor": (regressor(), {}),
        "UserLevelSGDRegressor, descent": (regressor(solver="sgd", max_iter=3), {}),
        "UserLevelSGDRegressor, three rows a user": (regressor(weight_cap=3, aggregation="mean"), {}),
        "UserLevelSGDRegressor, ridge off": (regressor(alpha=0.0, fit_intercept=False), {"settings": [{}]}),
        "UserLevelSGDRegressor, add-remove": (regressor(**far, fit_intercept=False), {}),
        "UserLevelSGDRegressor, whitened": (regressor(30.0), {}),
        "UserLevelSGDRegressor, descent, whitened": (regressor(30.0, solver="sgd", max_iter=3), {}),
        "UserLevelSGDRegressor, add-remove, standardised": (regressor(30.0, **far), {}),
        "UserLevelSGDRegressor, not standardised": (regressor(30.0, standardize=False), {}),
        "UserLevelSGDClassifier": (classifier(classes=[0, 1]), {}),
        "UserLevelSGDClassifier, three classes": (classifier(classes=[0, 1, 2], max_iter=3), {}),
        "UserLevelSGDClassifier, add-remove": (classifier(classes=[0, 1], **far, max_iter=3), {}),
        "UserLevelSGDClassifier, whitened": (classifier(30.0, classes=[0, 1], max_iter=3), {}),
        "UserLevelSGDClassifier, class weights": (
            classifier(30.0, classes=[0, 1], class_weight="balanced", max_iter=3),
            {},
        ),
        "UserLevelMean": (sp.UserLevelMean(), {}),
        "UserLevelMean, robust, scale known": (sp.UserLevelMean(tau=0.5, aggregation="robust"), {}),
        "UserLevelMean, add-remove": (sp.UserLevelMean(**far), {}),
        "UserLevelMean, pure": (sp.UserLevelMean(30.0, delta=0.0), {}),
        "UserLevelMean, place found": (sp.UserLevelMean(30.0), {}),
        "UserLevelSelector": (sp.UserLevelSelector(candidates()), choice),
        "UserLevelSelector, means": (sp.UserLevelSelector(candidates(), rule="means", bound=2.0), choice),
        "UserLevelSelector, add-remove": (sp.UserLevelSelector(candidates(), adjacency="add-remove"), choice),
        "UserLevelSelector, mean risk": (sp.UserLevelSelector(candidates(), epsilon=30.0), choice),
        "UserLevelSelector, mean risk, add-remove": (
            sp.UserLevelSelector(candidates(), epsilon=30.0, adjacency="add-remove"),
            choice,
        ),
        "MetricPrivatizer": (privatizer(), {}),
        "MetricPrivatizer, l1": (privatizer(metric="l1"), {}),
        "MetricPrivatizer, linf": (privatizer(metric="linf"), {}),
        "MetricPrivatizer, exponential": (privatizer(10.0, mechanism="exponential", **unit), {}),
        "MetricPrivatizer, haversine": (
            privatizer(0.01, metric="haversine", coordinates="latitude-longitude"),
            degrees,
        ),
        "MetricPrivatizer, precomputed": (privatizer(**finite), among_states),
        "MetricPrivatizer, tree": (
            privatizer(metric="tree", parents=parents, states=["a", "b", "c"]),
            {"pairs": state_pairs(["a", "b", "c"], tree), "settings": [{}]},
        ),
        "MetricPrivateSynthesizer, rows": (synthesizer(**unit, resolution=16), {"X": line}),
        "MetricPrivateSynthesizer, rows, bounds chosen": (synthesizer(), {}),
        "MetricPrivateSynthesizer, rows and categories": (
            synthesizer(**unit, categories={0: ["a", "b", "c"]}),
            {"X": letters},
        ),
        "MetricPrivateSynthesizer, transport": (synthesizer(**transport), {"X": line}),
        "PrivateImputer, median": (steps.PrivateImputer(), {}),
        "PrivateImputer, most frequent": (steps.PrivateImputer(**named), {"X": colours}),
        "PrivateStandardScaler": (steps.PrivateStandardScaler(), {}),
        "PrivateStandardScaler, add-remove": (steps.PrivateStandardScaler(adjacency="add-remove"), {}),
        "PrivateKBinsDiscretizer": (steps.PrivateKBinsDiscretizer(), {}),
        "PrivateQuantileTransformer": (steps.PrivateQuantileTransformer(delta=0.0), {}),
        "PrivateSplineTransformer": (steps.PrivateSplineTransformer(), {}),
        "PrivateSearchCV, users": (
            search(
                regressor(max_iter=2),
                {"radius": [1.0, 9.0]},
                epsilon=4.0,
                n_iter=2,
                scoring="neg_mean_absolute_error",
                score_bounds=(-3.0, 0.0),
            ),
            {"settings": [{}]},  # a plan of its own for each setting takes seconds
        ),
        "PrivateSearchCV, labels": (
            search(
                gam(classes=[0, 1], mechanism="laplace", **few), {"n_bins": [2, 4]}, epsilon=4.0, delta=0.0, n_iter=2
            ),
            {**two, "settings": [{}]},
        ),
    }


def old_subjects():
    """What is searched in the older commit, by fault, with the arguments of the search."""
    from skprivate.privacy import open_release

    def bags(X, y, random_state=None, **options):
        return sp.make_random_bags(X, y, random_state=random_state, **options)

    def curated(X, y, random_state=None, **options):
        return sp.make_curated_bags(X, y, [(0,)], random_state=random_state, **options)

    def laplace(X, random_state=None):
        with open_release(epsilon=1.0, unit="row", adjacency="replace-one", random_state=random_state) as release:
            return release.laplace(np.asarray(X)[:, 0], sensitivity=1, epsilon=1.0)

    numbers = np.linspace(0.0, 1.0, 20)
    plane = np.stack([numbers, numbers[::-1]], axis=1)
    numeric_bags = {"bag_size": 1, "epsilon": 1.0, "numbers": True, "label_bounds": (0.0, 1.0)}
    numeric_tables = {"epsilon": 1.0, "classes": None, "label_bounds": (0.0, 1.0)}
    # The variants that the search makes itself, but for another mechanism, which has a fault of its own.
    scales = [{"bounds": (0.0, width), "epsilon": 10.0 / width} for width in (1.0, 1e-6, 1e-3, 1e6)]
    integers = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l1"}
    return {
        "several outputs": (bags, {"X": plane, "y": numbers, "settings": numeric_bags}),
        "a user's number of rows, regressor": (sp.UserLevelSGDRegressor(), {"settings": [{}]}),
        "a user's number of rows, classifier": (sp.UserLevelSGDClassifier(classes=[0, 1]), {"settings": [{}]}),
        "squares underflow, ridge off": (
            sp.UserLevelSGDRegressor(alpha=0.0, fit_intercept=False),
            {"unit": "row", "settings": [{}]},
        ),
        "labels far from zero, tables": (curated, {"X": plane, "y": numbers, "settings": numeric_tables}),
        "scores rounded to a unit": (
            sp.MetricPrivatizer(epsilon=10.0, mechanism="exponential", bounds=(0.0, 1.0)),
            {"settings": scales},
        ),
        "radii on a lattice": (sp.MetricPrivatizer(epsilon=1.0), {}),
        "integers through floats": (laplace, {"X": np.array([[0]]), **integers}),
    }
