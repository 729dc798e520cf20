"""Every way in which the private estimators may be set up, with data that suit it: what the long replay goes through.

A new estimator, or a new option that changes what is drawn, belongs in here.
"""

from itertools import cycle, islice, product

from helpers.variant_data import (
    AbsoluteLoss,
    category_rows,
    colours,
    columnwise_candidates,
    constant_candidates,
    counts,
    extreme_labels,
    far_rows,
    linear_candidates,
    lost,
    missing_values,
    names_of_users,
    one_column,
    only_categories,
    places_in_degrees,
    private_by_label,
    quartic,
    rows_of_colours,
    rows_of_one_user_each,
    rows_with_gaps,
    states,
    three_classes,
    tied_rows,
    ties_and_extremes,
    users_of_many_rows,
    wide_rows,
)
from sklearn.pipeline import make_pipeline

import skprivate as sp
import skprivate.model_selection
from skprivate.metric import Ball
from skprivate.utils.estimator_checks import default_data

BOTH = ("replace-one", "add-remove")

_USER_DATA = (
    default_data,
    users_of_many_rows,
    rows_of_one_user_each,
    ties_and_extremes,
    wide_rows,
)


def modes(kind, *, fixed=None, **options):
    """An instance for every combination of options."""
    return [
        kind(**(fixed or {}), **dict(zip(options, values, strict=True)))
        for values in product(*options.values())
    ]


def spread(instances, makers, each):
    """Every instance with some of the makers in turn, so that each maker meets about as many instances.

    Five or seven makers meet every value of options that have two or three.
    """
    turns = cycle(makers)
    return [(instance, tuple(islice(turns, each))) for instance in instances]


def _user_level_means():
    kind = sp.UserLevelMean
    plain = modes(kind, adjacency=BOTH, aggregation=("mean", "robust"), weight_cap=(1, 3))
    known = modes(kind, adjacency=BOTH, tau=(0.5,), bound=(1e9, 10.0), n_users=(None, 8))
    pure = modes(kind, delta=(0.0,), tau=(0.5, None), aggregation=("mean", "robust"), epsilon=(1e4,))
    wild = modes(kind, adjacency=BOTH, bound=(1e-3, 1e12), epsilon=(0.1, 20.0), delta=(1e-9,))
    # Eight users are enough for a tail and a farther distance.
    precise = modes(kind, adjacency=BOTH, aggregation=("mean", "robust"), epsilon=(1e3, 1e5))
    return (
        spread(plain, (*_USER_DATA, names_of_users, far_rows), 3)
        + spread(known, _USER_DATA, 2)
        + spread(pure, _USER_DATA, 2)
        + spread(wild, _USER_DATA, 1)
        + spread(precise, (*_USER_DATA, far_rows), 1)
    )


def _user_level_regressors():
    kind = sp.UserLevelSGDRegressor
    descents = modes(
        kind,
        fixed={"max_iter": 3},
        solver=("sgd", "phased"),
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        loss=("squared_error", "huber", AbsoluteLoss()),
        weight_cap=(1, 3),
    )
    moments = modes(kind, solver=("moments",), adjacency=BOTH, weight_cap=(1, 3), fit_intercept=(True, False))
    known = modes(kind, adjacency=BOTH, n_users=(8,), solver=("sgd", "moments"), alpha=(None, 0.0, 0.5))
    chosen = modes(kind, adjacency=BOTH, radius=(None, 2.0), fit_intercept=(True, False), epsilon=(0.2, 2.0))
    # Budgets that let eight users find centres and scales, and one that does not.
    scaled = modes(
        kind,
        fixed={"max_iter": 3},
        epsilon=(1e4, 1e5),
        adjacency=BOTH,
        standardize=(True, False),
        aggregation=("auto", "mean"),
        solver=("sgd", "moments"),
        fit_intercept=(True, False),
    )
    # Too few for a selection for each column, enough for joint histograms; and too few for one for the target.
    searched = modes(
        kind,
        fixed={"max_iter": 3},
        epsilon=(160.0, 100.0, 60.0),
        adjacency=BOTH,
        n_users=(8,),
        fit_intercept=(True, False),
    )
    # Enough for the target and means of many columns, without or with a norm of all rows.
    loud = modes(kind, fixed={"max_iter": 3}, epsilon=(150.0, 210.0), adjacency=BOTH, n_users=(8,))
    # Options of the gradients first meet all data; what goes through the same sums meets some.
    return (
        spread(descents, _USER_DATA, 1)
        + spread(chosen, _USER_DATA, 1)
        + spread(scaled, _USER_DATA, 1)
        + spread(searched, _USER_DATA[:4], 1)
        + [(each, (wide_rows,)) for each in loud]
        + spread(moments + known, (*_USER_DATA[:4], names_of_users), 1)
    )


def _user_level_classifiers():
    kind = sp.UserLevelSGDClassifier
    two = modes(
        kind,
        fixed={"classes": [0, 1], "max_iter": 3},
        solver=("sgd", "phased"),
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        loss=("log_loss", "smoothed_hinge", AbsoluteLoss()),
        weight_cap=(1, 3),
    )
    three = modes(
        kind,
        fixed={"classes": [0, 1, 2], "max_iter": 3},
        adjacency=BOTH,
        loss=("log_loss", "smoothed_hinge"),
        solver=("sgd", "phased"),
    )
    scaled = modes(
        kind,
        fixed={"classes": [0, 1], "max_iter": 3},
        epsilon=(1e4, 1e5),
        adjacency=BOTH,
        standardize=(True, False),
        solver=("sgd", "phased"),
        fit_intercept=(True, False),
    )
    # Enough for scales and means of eight users' rows, not for second moments.
    centred = modes(
        kind, fixed={"classes": [0, 1], "max_iter": 3, "epsilon": 250.0}, adjacency=BOTH, n_users=(8,)
    )
    # Enough for means alone, or with one norm of all rows, of many columns that have no scales.
    loud = modes(
        kind,
        fixed={"max_iter": 3},
        classes=([0, 1], [0, 1, 2]),
        epsilon=(30.0, 160.0),
        adjacency=BOTH,
        n_users=(8,),
    )
    known = modes(
        kind,
        fixed={"classes": [0, 1]},
        adjacency=BOTH,
        n_users=(8,),
        alpha=(0.0, 0.1),
        feature_norm=(None, 3),
    )
    weighted = modes(
        kind,
        fixed={"classes": [0, 1], "max_iter": 2},
        adjacency=BOTH,
        class_weight=("balanced", {1: 3.0}),
        weight_cap=(1, 3),
    )
    weighted_three = modes(
        kind,
        fixed={"classes": [0, 1, 2], "max_iter": 2, "class_weight": "balanced"},
        loss=("log_loss", "smoothed_hinge"),
        adjacency=BOTH,
    )
    # Steps of hardly any noise, with curvatures.
    quiet = modes(
        kind,
        fixed={"classes": [0, 1], "max_iter": 6, "epsilon": 1e7},
        adjacency=BOTH,
        class_weight=(None, "balanced"),
        standardize=(True, False),
    )
    return (
        spread(two, _USER_DATA, 1)
        + spread(quiet, _USER_DATA, 1)
        + [(each, (wide_rows,)) for each in loud]
        + spread(weighted, _USER_DATA, 1)
        + [(each, (three_classes,)) for each in weighted_three]
        + [(each, (three_classes,)) for each in three]
        + spread(scaled, _USER_DATA, 1)
        + spread(centred + known, (*_USER_DATA[:4], names_of_users), 1)
    )


def _selectors():
    kind, data = sp.UserLevelSelector, (*_USER_DATA[:4], names_of_users)
    linear, columnwise, constant = linear_candidates(), columnwise_candidates(), constant_candidates()
    losses = ("squared_error", "absolute_error", quartic)
    votes = modes(kind, estimators=(linear, columnwise), rule=("votes",), adjacency=BOTH, loss=losses)
    differences = modes(
        kind, estimators=(linear, columnwise), epsilon=(1.0, 100.0), adjacency=BOTH, loss=losses
    )
    means = modes(kind, estimators=(columnwise,), rule=("means",), loss=losses, tau=(1.0, 0.01))
    ranges = modes(kind, estimators=(linear,), rule=("means",), bound=(2.0, 1e12), epsilon=(0.3, 10.0))
    batch = modes(kind, estimators=(columnwise,), predict_by=("batch",), adjacency=BOTH, loss=losses)
    batch += modes(kind, estimators=(columnwise,), predict_by=("batch",), rule=("means",), loss=losses)
    classes = modes(
        kind, estimators=(constant,), adjacency=BOTH, predict_by=("user", "batch"), loss=("auto", "zero_one")
    )
    return spread(votes + differences + means + ranges + batch + classes, data, 2)


def _gam_classifiers():
    kind, noise = sp.CuratedBagGAMClassifier, ("laplace", "gaussian", "discrete_gaussian", "auto")
    sets = ("pairs", "singles", [(0,), (0, 1), (1, 2)])
    two = modes(kind, fixed={"classes": [0, 1], "n_bins": 4}, mechanism=noise, feature_sets=sets)
    three = modes(kind, fixed={"classes": [0, 1, 2], "n_bins": 4}, mechanism=noise, min_size=(None, 2))
    return [(each, (default_data,)) for each in two] + [(each, (three_classes,)) for each in three]


def _gam_regressors():
    kind, noise = sp.CuratedBagGAMRegressor, ("laplace", "gaussian", "discrete_gaussian", "auto")
    bounds = (None, (-2, 3), (1.7e18, 1.7e18 + 1e6), (1e15 + 2047.5, 1e15 + 2048.5), (-1e-50, 1e-50))
    squared = modes(kind, fixed={"n_bins": 4}, mechanism=noise, label_bounds=bounds)
    squared += modes(
        kind,
        mechanism=("laplace", "gaussian"),
        feature_sets=("singles", "pairs"),
        label_bounds=(None, (0, 1)),
    )
    poisson = modes(
        kind, fixed={"n_bins": 4, "loss": "poisson"}, mechanism=noise, label_bounds=(None, (0, 9))
    )
    return [(each, (default_data, extreme_labels)) for each in squared] + [
        (each, (counts, extreme_labels)) for each in poisson
    ]


def _random_bags():
    bounds = (None, (-2, 3), (1.7e18, 1.7e18 + 1e6), (1e15 + 2047.5, 1e15 + 2048.5), (-1e-50, 1e-50))
    losses = {
        "loss": ("likelihood", "log", "squared", "debiased", "easyllp"),
        "bag_size": (1, 3),
        "disjoint": (True, False),
    }
    return {
        sp.RandomBagClassifier: [
            (each, (default_data,)) for each in modes(sp.RandomBagClassifier, classes=([0, 1],), **losses)
        ]
        + [(each, (three_classes,)) for each in modes(sp.RandomBagClassifier, classes=([0, 1, 2],), **losses)]
        + [
            (sp.RandomBagClassifier(classes=[0, 1], bag_size=3, buckets=False, prior=prior), (default_data,))
            for prior in ("ridge", "spread")
        ],
        sp.RandomBagRegressor: [
            (each, (default_data, extreme_labels))
            for each in modes(
                sp.RandomBagRegressor,
                disjoint=(True, False),
                bag_size=(1, 3),
                loss=("squared", "debiased"),
                label_bounds=bounds,
            )
        ]
        + [
            (sp.RandomBagRegressor(bag_size=3, buckets=True, prior=prior), (default_data,))
            for prior in ("ridge", "spread")
        ],
    }


def _halfspaces():
    kind = sp.PPMHalfspaceClassifier
    plain = modes(
        kind,
        fixed={"classes": [0, 1]},
        strategy=("exact", "thinned", "greedy", "auto"),
        selection=("exponential", "permute-and-flip"),
        adjacency=BOTH,
    )
    weighted = modes(
        kind,
        fixed={"classes": [0, 1]},
        strategy=("exact", "greedy"),
        adjacency=BOTH,
        class_weight=({0: 1.0, 1: 3.7}, {0: 40.0, 1: 1.0}),
        private_label=(0, 1),
    )
    balanced = modes(kind, strategy=("thinned", "greedy"), class_weight=("balanced",), max_halfspaces=(1, 3))
    calibrated = modes(
        kind,
        fixed={"classes": [0, 1], "private_label": 1},
        strategy=("exact", "greedy"),
        adjacency=BOTH,
        calibration_fraction=(0.3,),
        epsilon=(1.0, 100.0),
    )
    descents = modes(
        kind,
        fixed={"classes": [0, 1], "private_label": 1, "delta": 1e-6},
        strategy=("gradient", "auto"),
        adjacency=BOTH,
        calibration_fraction=(None, 0.3),
        epsilon=(1.0, 100.0),
    )
    weighted += modes(
        kind,
        fixed={"classes": [0, 1], "delta": 1e-6},
        strategy=("gradient",),
        adjacency=BOTH,
        class_weight=({0: 1.0, 1: 3.7}, {0: 40.0, 1: 1.0}),
        private_label=(0, 1),
    )
    several = plain + calibrated + descents
    return [(each, (default_data, private_by_label, tied_rows)) for each in several] + spread(
        weighted + balanced, (default_data, tied_rows), 1
    )


def _synthesizers():
    kind = sp.MetricPrivateSynthesizer
    ways = {"metric": ("wasserstein",), "ground": ("l1", "l2", "linf")}
    flows = modes(kind, bounds=((0, 1),), epsilon=(5.0, 200.0), **ways)
    flows += modes(kind, bounds=((-10, 10),), epsilon=(50.0,), resolution=(4,), **ways)
    rows = [kind()]
    rows += modes(kind, metric=("rows",), bounds=((0, 1), "private", (-1e9, 1e9)), resolution=("auto", 4))
    mixed = modes(
        kind,
        metric=("rows",),
        bounds=((0, 1), "private"),
        categories=({0: ["a", "b", "c"]},),
        epsilon=(0.5, 2.0),
    )
    product = {
        "metric": ("wasserstein",),
        "ground": ("l1", "l2", "linf"),
        "category_weight": (0.1, 1.0, 30.0),
    }
    mixed += modes(
        kind,
        bounds=((0, 1),),
        categories=({0: ["a", "b", "c"]},),
        epsilon=(50.0,),
        resolution=("auto", 3),
        **product,
    )
    plain = modes(
        kind, categories=({0: ["a", "b", "c"], 1: ["a", "b", "c", "d"]},), epsilon=(20.0,), **product
    )
    plain += modes(
        kind, metric=("rows",), categories=({0: ["a", "b", "c"], 1: ["a", "b", "c"]},), epsilon=(0.5, 2.0)
    )
    return (
        [(each, (default_data, one_column)) for each in flows]
        + [(each, (default_data, one_column, far_rows)) for each in rows]
        + [(each, (category_rows,)) for each in mixed]
        + [(each, (only_categories,)) for each in plain]
    )


def _privatizers():
    kind, norms = sp.MetricPrivatizer, ("l1", "l2", "linf")
    rows = modes(
        kind, metric=norms, mechanism=("k-norm", "exponential"), bounds=((0, 1), (-1e6, 1e6)), resolution=(4,)
    )
    rows += modes(kind, metric=norms, epsilon=(1e-3, 1.0, 1e3))
    rows += modes(
        kind,
        metric=norms,
        bounds=tuple(Ball(0.5, 1.0, norm) for norm in norms),
        out_of_bounds=("clip",),
        mechanism=("k-norm", "exponential"),
        epsilon=(0.1, 1e8),
        resolution=(4,),
    )
    places = modes(
        kind,
        metric=("haversine",),
        coordinates=("latitude-longitude", "longitude-latitude"),
        bounds=(None, ([10.0, 10.0], [20.0, 30.0]), ([-80.0, -80.0], [80.0, 80.0])),
        epsilon=(1e-3, 1.0, 1e3),
    )
    tree = {"a": "r", "b": "r", "c": "s", "r": "t", "s": "t"}
    distances = [[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]]
    finite = modes(
        kind,
        metric=("precomputed",),
        mechanism=("optimal", "exponential", "auto"),
        distances=(distances,),
        epsilon=(0.5, 3.0),
    )
    finite += modes(
        kind,
        metric=("precomputed",),
        mechanism=("optimal",),
        distances=(distances,),
        prior=([0.7, 0.2, 0.1],),
    )
    finite += modes(
        kind,
        metric=("tree",),
        mechanism=("relaxed", "exponential", "optimal", "auto"),
        parents=(tree,),
        states=(["a", "b", "c"],),
        epsilon=(0.5, 3.0),
    )
    return (
        [(each, (default_data, one_column)) for each in rows]
        + [(each, (places_in_degrees,)) for each in places]
        + [(each, (states,)) for each in finite]
    )


_PREPROCESSOR_DATA = (
    users_of_many_rows,
    rows_of_one_user_each,
    ties_and_extremes,
    missing_values,
    names_of_users,
    rows_with_gaps,
    far_rows,
)


def _preprocessors():
    ways = {"adjacency": BOTH, "delta": (0.0, 1e-6), "bounds": (None, (-2.0, 3.0))}
    imputers = spread(
        modes(sp.preprocessing.PrivateImputer, strategy=("median", "mean"), **ways), _PREPROCESSOR_DATA, 3
    ) + [
        (each, (colours, rows_of_colours))
        for each in modes(
            sp.preprocessing.PrivateImputer,
            strategy=("most_frequent",),
            categories=(["red", "green", "blue"],),
            add_indicator=(True,),
            adjacency=BOTH,
            delta=(0.0, 1e-6),
        )
    ]
    scalers = modes(sp.preprocessing.PrivateStandardScaler, **ways)
    scalers += modes(
        sp.preprocessing.PrivateStandardScaler, with_mean=(False,), with_std=(True, False), adjacency=BOTH
    )
    bins = modes(sp.preprocessing.PrivateKBinsDiscretizer, n_bins=(2, 5), **ways)
    bins += modes(
        sp.preprocessing.PrivateKBinsDiscretizer, n_bins=(7,), encode=("ordinal", "onehot"), adjacency=BOTH
    )
    quantiles = modes(sp.preprocessing.PrivateQuantileTransformer, n_quantiles=(3, 33), **ways)
    splines = modes(
        sp.preprocessing.PrivateSplineTransformer, n_knots=(5, 4), passthrough=(False, True), **ways
    )
    splines += modes(
        sp.preprocessing.PrivateSplineTransformer,
        n_knots=(5,),
        basis=("b-spline",),
        degree=(1, 3),
    )
    return {
        sp.preprocessing.PrivateImputer: imputers,
        sp.preprocessing.PrivateStandardScaler: spread(scalers, _PREPROCESSOR_DATA, 4),
        sp.preprocessing.PrivateKBinsDiscretizer: spread(bins, _PREPROCESSOR_DATA, 2),
        sp.preprocessing.PrivateQuantileTransformer: spread(quantiles, _PREPROCESSOR_DATA, 2),
        sp.preprocessing.PrivateSplineTransformer: spread(splines, _PREPROCESSOR_DATA, 2),
    }


def _searches():
    kind, data = sp.model_selection.PrivateSearchCV, (*_USER_DATA[:4], names_of_users)
    fixed = {"n_iter": 2, "epsilon": 4.0}
    names = ("auto", "accuracy", "neg_brier_score", "neg_log_loss")
    classifiers = modes(
        kind,
        fixed={**fixed, "param_distributions": {"alpha": [0.0, 1.0]}, "score_bounds": (-2.0, 0.5)},
        estimator=[sp.UserLevelSGDClassifier(classes=[0, 1], max_iter=2, adjacency=each) for each in BOTH],
        scoring=names,
        refit=(None, 0.4),
    )
    regressors = modes(
        kind,
        fixed={**fixed, "param_distributions": {"radius": [1.0, 9.0]}, "score_bounds": (-3.0, 0.0)},
        estimator=[sp.UserLevelSGDRegressor(max_iter=2, adjacency=each) for each in BOTH],
        scoring=("neg_mean_absolute_error", "neg_mean_squared_error", lost),
    )
    # Two private steps share the budget; which of them there is, is a candidate too.
    steps = [
        make_pipeline(
            sp.preprocessing.PrivateStandardScaler(0.5, adjacency=each),
            sp.UserLevelSGDRegressor(max_iter=2, adjacency=each),
        )
        for each in BOTH
    ]
    pipelines = [
        kind(
            step,
            {"privatestandardscaler": [step[0], "passthrough"]},
            scoring="neg_mean_absolute_error",
            score_bounds=(-3.0, 0.0),
            **fixed,
        )
        for step in steps
    ]
    labels = kind(
        sp.CuratedBagGAMClassifier(epsilon=1.0, classes=[0, 1], mechanism="laplace", max_iter=20),
        {"n_bins": [2, 4]},
        delta=0.0,
        **fixed,
    )
    halfspaces = kind(
        sp.PPMHalfspaceClassifier(classes=[0, 1], private_label=1, strategy="greedy"),
        {"max_halfspaces": [1, 2]},
        delta=0.0,
        **fixed,
    )
    # Constants, on which batches of any size round alike.
    batch = kind(
        sp.UserLevelSelector(constant_candidates()),
        {"rule": ["votes"]},
        delta=0.0,
        predict_by="batch",
        **fixed,
    )
    return [
        *spread(classifiers + regressors + pipelines + [batch], data, 1),
        (labels, (default_data,)),
        (halfspaces, (private_by_label,)),
    ]


def _allowed(estimator, makers):
    """Phases and searches under add-remove need identifiers: rows alone are refused."""
    searched = getattr(estimator, "estimator", estimator)
    if hasattr(searched, "steps"):
        searched = searched[-1]
    dealt = getattr(estimator, "solver", None) == "phased" or searched is not estimator
    if not (dealt and getattr(searched, "adjacency", None) == "add-remove"):
        return makers
    return tuple(make for make in makers if make is not rows_of_one_user_each) or (users_of_many_rows,)


#: {class: [(instance, makers of data)]}
_ALL = {
    sp.UserLevelMean: _user_level_means(),
    sp.UserLevelSGDRegressor: _user_level_regressors(),
    sp.UserLevelSGDClassifier: _user_level_classifiers(),
    sp.UserLevelSelector: _selectors(),
    sp.CuratedBagGAMClassifier: _gam_classifiers(),
    sp.CuratedBagGAMRegressor: _gam_regressors(),
    **_random_bags(),
    sp.PPMHalfspaceClassifier: _halfspaces(),
    sp.MetricPrivateSynthesizer: _synthesizers(),
    sp.MetricPrivatizer: _privatizers(),
    **_preprocessors(),
    sp.model_selection.PrivateSearchCV: _searches(),
}
VARIANTS = {
    kind: [(each, _allowed(each, makers)) for each, makers in instances] for kind, instances in _ALL.items()
}
