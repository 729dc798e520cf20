"""Every way in which the private estimators may be set up, with data that suit it: what the long replay goes through.

A new estimator, or a new option that changes what is drawn, belongs in here.
"""

from itertools import product

from helpers.pairwise import pairwise
from helpers.variant_data import (
    AbsoluteLoss,
    Directions,
    NegativeBinomial,
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
    several_extremes,
    several_labels,
    several_numbers,
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

_USER_DATA = (default_data, users_of_many_rows, rows_of_one_user_each, ties_and_extremes, wide_rows)


def modes(kind, makers, *, fixed=None, **options):
    """Instances with their data: any two values of two options meet, and every value meets all kinds of data.

    Of all combinations these reach every branch of the package that decides a draw, and every kind of draw, price and
    norm, that all of them reach.
    """
    fixed, values = fixed or {}, [*options.values(), makers]

    def built(choice):
        *chosen, make = (of[k] for of, k in zip(values, choice, strict=True))
        return kind(**fixed, **dict(zip(options, chosen, strict=True))), make

    allowed = [choice for choice in product(*(range(len(of)) for of in values)) if _goes(*built(choice))]
    return [built(choice) for choice in pairwise(allowed)]


def _goes(estimator, make):
    """Searches under add-remove need identifiers: rows alone are refused."""
    searched = getattr(estimator, "estimator", estimator)
    if hasattr(searched, "steps"):
        searched = searched[-1]
    refused = searched is not estimator and getattr(searched, "adjacency", None) == "add-remove"
    return not (refused and make is rows_of_one_user_each)


def _user_level_means():
    kind = sp.UserLevelMean
    plain = modes(
        kind, (*_USER_DATA, names_of_users, far_rows), adjacency=BOTH, aggregation=("mean", "robust"), weight_cap=(1, 3)
    )
    known = modes(kind, _USER_DATA, adjacency=BOTH, tau=(0.5,), bound=(1e9, 10.0), n_users=(None, 8))
    pure = modes(kind, _USER_DATA, delta=(0.0,), tau=(0.5, None), aggregation=("mean", "robust"), epsilon=(1e4,))
    wild = modes(kind, _USER_DATA, adjacency=BOTH, bound=(1e-3, 1e12), epsilon=(0.1, 20.0), delta=(1e-9,))
    # Eight users are enough for a tail and a farther distance.
    precise = modes(kind, (*_USER_DATA, far_rows), adjacency=BOTH, aggregation=("mean", "robust"), epsilon=(1e3, 1e5))
    return plain + known + pure + wild + precise


def _user_level_regressors():
    kind, some_data = sp.UserLevelSGDRegressor, (*_USER_DATA[:4], names_of_users)
    descents = modes(
        kind,
        _USER_DATA,
        fixed={"max_iter": 3},
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        loss=("squared_error", "huber", AbsoluteLoss()),
        weight_cap=(1, 3),
    )
    quantiles = modes(
        kind,
        _USER_DATA,
        fixed={"max_iter": 3, "quantile": 0.1},
        epsilon=(1.0, 1e4),
        adjacency=BOTH,
        aggregation=("robust", "mean"),
        loss=("quantile", "absolute_error"),
        alpha=(None, 0.5),
        radius=(None, 2.0),
    )
    quiet = modes(
        kind,
        (rows_of_one_user_each, default_data),
        epsilon=(1e4,),
        adjacency=BOTH,
        n_users=(8,),
        loss=("squared_error", "huber"),
        fit_intercept=(True, False),
        alpha=(None, 0.5),
    )
    known = modes(kind, some_data, adjacency=BOTH, n_users=(8,), solver=("auto", "sgd"), alpha=(None, 0.0, 0.5))
    chosen = modes(
        kind, _USER_DATA, adjacency=BOTH, radius=(None, 2.0), fit_intercept=(True, False), epsilon=(0.2, 2.0)
    )
    # Budgets that let eight users find centres and scales, and one that does not.
    scaled = modes(
        kind,
        _USER_DATA,
        fixed={"max_iter": 3},
        epsilon=(1e4, 1e5),
        adjacency=BOTH,
        standardize=(True, False),
        aggregation=("auto", "mean"),
        solver=("auto", "sgd"),
        fit_intercept=(True, False),
    )
    # Too few for a selection for each column, enough for joint histograms; and too few for one for the target.
    searched = modes(
        kind,
        _USER_DATA[:4],
        fixed={"max_iter": 3},
        epsilon=(160.0, 100.0, 60.0),
        adjacency=BOTH,
        n_users=(8,),
        fit_intercept=(True, False),
    )
    # Enough for the target and means of many columns, without or with a norm of all rows.
    loud = modes(kind, (wide_rows,), fixed={"max_iter": 3}, epsilon=(150.0, 210.0), adjacency=BOTH, n_users=(8,))
    # Steps of hardly any noise, with curvatures.
    quiet = modes(
        kind,
        _USER_DATA,
        fixed={"max_iter": 6, "epsilon": 1e7},
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        standardize=(True, False),
    )
    # Budgets that leave eight users' derivatives to invert.
    inferred = modes(
        kind,
        _USER_DATA,
        fixed={"max_iter": 3, "inference": True},
        epsilon=(1e3, 1e5),
        adjacency=BOTH,
        weight_cap=(1, 3),
        fit_intercept=(True, False),
    )
    return descents + quantiles + chosen + scaled + searched + loud + known + quiet + inferred


def _user_level_classifiers():
    kind = sp.UserLevelSGDClassifier
    two = modes(
        kind,
        _USER_DATA,
        fixed={"classes": [0, 1], "max_iter": 3},
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        loss=("log_loss", "smoothed_hinge", AbsoluteLoss()),
        weight_cap=(1, 3),
    )
    three = modes(
        kind,
        (three_classes,),
        fixed={"classes": [0, 1, 2], "max_iter": 3},
        adjacency=BOTH,
        loss=("log_loss", "smoothed_hinge"),
    )
    scaled = modes(
        kind,
        _USER_DATA,
        fixed={"classes": [0, 1], "max_iter": 3, "solver": "sgd"},
        epsilon=(1e4, 1e5),
        adjacency=BOTH,
        standardize=(True, False),
        fit_intercept=(True, False),
    )
    # Enough for scales and means of eight users' rows, not for second moments.
    centred = modes(
        kind,
        (*_USER_DATA[:4], names_of_users),
        fixed={"classes": [0, 1], "max_iter": 3, "epsilon": 250.0},
        adjacency=BOTH,
        n_users=(8,),
    )
    # Enough for means alone, or with one norm of all rows, of many columns that have no scales.
    loud = modes(
        kind,
        (wide_rows,),
        fixed={"max_iter": 3},
        classes=([0, 1], [0, 1, 2]),
        epsilon=(30.0, 160.0),
        adjacency=BOTH,
        n_users=(8,),
    )
    known = modes(
        kind,
        (*_USER_DATA[:4], names_of_users),
        fixed={"classes": [0, 1]},
        adjacency=BOTH,
        n_users=(8,),
        alpha=(0.0, 0.1),
        feature_norm=(None, 3),
    )
    weighted = modes(
        kind,
        _USER_DATA,
        fixed={"classes": [0, 1], "max_iter": 2},
        adjacency=BOTH,
        class_weight=("balanced", {1: 3.0}),
        weight_cap=(1, 3),
    )
    weighted_three = modes(
        kind,
        (three_classes,),
        fixed={"classes": [0, 1, 2], "max_iter": 2, "class_weight": "balanced"},
        loss=("log_loss", "smoothed_hinge"),
        adjacency=BOTH,
    )
    # Steps of hardly any noise, with curvatures.
    quiet = modes(
        kind,
        _USER_DATA,
        fixed={"classes": [0, 1], "max_iter": 6, "epsilon": 1e7},
        adjacency=BOTH,
        class_weight=(None, "balanced"),
        standardize=(True, False),
    )
    # Budgets that leave eight users' derivatives to invert.
    inferred = modes(
        kind,
        _USER_DATA,
        fixed={"classes": [0, 1], "max_iter": 3, "inference": True},
        epsilon=(1e3, 1e5),
        adjacency=BOTH,
        weight_cap=(1, 3),
        fit_intercept=(True, False),
    )
    return two + quiet + loud + weighted + weighted_three + three + scaled + centred + known + inferred


def _selectors():
    kind, data = sp.UserLevelSelector, (*_USER_DATA[:4], names_of_users)
    linear, columnwise, constant = linear_candidates(), columnwise_candidates(), constant_candidates()
    losses = ("squared_error", "absolute_error", quartic)
    votes = modes(kind, data, estimators=(linear, columnwise), rule=("votes",), adjacency=BOTH, loss=losses)
    differences = modes(kind, data, estimators=(linear, columnwise), epsilon=(1.0, 100.0), adjacency=BOTH, loss=losses)
    means = modes(
        kind,
        data,
        estimators=(columnwise,),
        rule=("means",),
        predict_by=("user", "batch"),
        loss=losses,
        tau=(1.0, 0.01),
    )
    ranges = modes(kind, data, estimators=(linear,), rule=("means",), bound=(2.0, 1e12), epsilon=(0.3, 10.0))
    batch = modes(kind, data, estimators=(columnwise,), predict_by=("batch",), adjacency=BOTH, loss=losses)
    classes = modes(
        kind, data, estimators=(constant,), adjacency=BOTH, predict_by=("user", "batch"), loss=("auto", "zero_one")
    )
    return votes + differences + means + ranges + batch + classes


def _gam_classifiers():
    kind, noise = sp.CuratedBagGAMClassifier, ("laplace", "gaussian", "discrete_gaussian", "auto")
    sets = ("pairs", "singles", [(0,), (0, 1), (1, 2)])
    two = modes(kind, (default_data,), fixed={"classes": [0, 1], "n_bins": 4}, mechanism=noise, feature_sets=sets)
    three = modes(
        kind, (three_classes,), fixed={"classes": [0, 1, 2], "n_bins": 4}, mechanism=noise, min_size=(None, 2)
    )
    labels = modes(kind, (several_labels,), fixed={"n_bins": 4}, mechanism=noise, classes=(None, [0, 1]))
    small = modes(
        kind,
        (default_data,),
        fixed={"classes": [0, 1], "n_bins": 2, "feature_sets": [(0,), (0, 1), (1, 2)], "min_size": 4},
        small_bags=("merge", "drop"),
        mechanism=("laplace", "gaussian"),
    )
    return two + three + labels + small


#: Public bounds on labels: none, small, far from zero for float64, far beyond a step, and tiny.
_LABEL_BOUNDS = (None, (-2, 3), (1.7e18, 1.7e18 + 1e6), (1e15 + 2047.5, 1e15 + 2048.5), (-1e-50, 1e-50))


def _gam_regressors():
    kind, noise = sp.CuratedBagGAMRegressor, ("laplace", "gaussian", "discrete_gaussian", "auto")
    data = (default_data, extreme_labels)
    squared = modes(kind, data, fixed={"n_bins": 4}, mechanism=noise, label_bounds=_LABEL_BOUNDS)
    squared += modes(
        kind, data, mechanism=("laplace", "gaussian"), feature_sets=("singles", "pairs"), label_bounds=(None, (0, 1))
    )
    several = modes(
        kind,
        (several_numbers, several_extremes),
        fixed={"n_bins": 4},
        mechanism=noise,
        loss=("squared", "poisson"),
        label_bounds=(None, (0, 9), [(0, 1), (0, 1e6)]),
    )
    own = modes(
        kind,
        (default_data, extreme_labels),
        fixed={"n_bins": 4, "feature_sets": "singles"},
        mechanism=("laplace", "gaussian"),
        loss=(NegativeBinomial(), Directions()),
        label_bounds=(None, (-1, 1)),
    )
    poisson = modes(
        kind,
        (counts, extreme_labels),
        fixed={"n_bins": 4, "loss": "poisson"},
        mechanism=noise,
        label_bounds=(None, (0, 9)),
    )
    small = modes(
        kind,
        (default_data, extreme_labels),
        fixed={"n_bins": 2, "feature_sets": [(0,), (0, 1), (1, 2)], "min_size": 4},
        small_bags=("merge", "drop"),
        label_bounds=(None, (0, 1)),
    )
    return squared + several + own + poisson + small


def _random_bags():
    bags = {"bag_size": (1, 3), "disjoint": (True, False)}
    losses = {"loss": ("likelihood", "log", "squared", "debiased", "easyllp"), **bags}
    ridges = {"prior": ("ridge", "spread"), "bag_size": (3,)}
    return {
        sp.RandomBagClassifier: modes(sp.RandomBagClassifier, (default_data,), fixed={"classes": [0, 1]}, **losses)
        + modes(sp.RandomBagClassifier, (three_classes,), fixed={"classes": [0, 1, 2]}, **losses)
        + modes(sp.RandomBagClassifier, (default_data,), fixed={"classes": [0, 1], "buckets": False}, **ridges),
        sp.RandomBagRegressor: modes(
            sp.RandomBagRegressor,
            (default_data, extreme_labels),
            loss=("squared", "debiased"),
            label_bounds=_LABEL_BOUNDS,
            **bags,
        )
        + modes(sp.RandomBagRegressor, (default_data,), fixed={"buckets": True}, **ridges),
    }


def _halfspaces():
    kind, data = sp.PPMHalfspaceClassifier, (default_data, private_by_label, tied_rows)
    plain = modes(
        kind,
        data,
        fixed={"classes": [0, 1]},
        strategy=("exact", "thinned", "greedy", "auto"),
        selection=("exponential", "permute-and-flip"),
        adjacency=BOTH,
    )
    weights = {"adjacency": BOTH, "class_weight": ({0: 1.0, 1: 3.7}, {0: 40.0, 1: 1.0}), "private_label": (0, 1)}
    few_data = (default_data, tied_rows)
    weighted = modes(kind, few_data, fixed={"classes": [0, 1]}, strategy=("exact", "greedy"), **weights)
    weighted += modes(kind, few_data, fixed={"classes": [0, 1], "delta": 1e-6}, strategy=("gradient",), **weights)
    balanced = modes(kind, few_data, strategy=("thinned", "greedy"), class_weight=("balanced",), max_halfspaces=(1, 3))
    calibrated = modes(
        kind,
        data,
        fixed={"classes": [0, 1], "private_label": 1},
        strategy=("exact", "greedy"),
        adjacency=BOTH,
        calibration_fraction=(0.3,),
        epsilon=(1.0, 100.0),
    )
    descents = modes(
        kind,
        data,
        fixed={"classes": [0, 1], "private_label": 1, "delta": 1e-6},
        strategy=("gradient", "auto"),
        adjacency=BOTH,
        calibration_fraction=(None, 0.3),
        epsilon=(1.0, 100.0),
    )
    return plain + calibrated + descents + weighted + balanced


def _whole_tables():
    kind = sp.PrivateTableSynthesizer
    return modes(kind, (default_data, one_column, far_rows, missing_values), target=(None, 0), epsilon=(0.5, 20.0))


def _synthesizers():
    kind, norms, data = sp.MetricPrivateSynthesizer, ("l1", "l2", "linf"), (default_data, one_column)
    names = ["a", "b", "c"]
    distances = {"metric": ("wasserstein",), "ground": norms}
    flows = modes(kind, data, bounds=((0, 1),), epsilon=(5.0, 200.0), **distances)
    flows += modes(kind, data, bounds=((-10, 10),), epsilon=(50.0,), resolution=(4,), **distances)
    all_data = (*data, far_rows)
    rows = modes(kind, all_data)
    rows += modes(kind, all_data, metric=("rows",), bounds=((0, 1), "private", (-1e9, 1e9)), resolution=("auto", 4))
    weights = {**distances, "category_weight": (0.1, 1.0, 30.0)}
    mixed = modes(
        kind,
        (category_rows,),
        fixed={"categories": {0: names}},
        metric=("rows",),
        bounds=((0, 1), "private"),
        epsilon=(0.5, 2.0),
    )
    mixed += modes(
        kind,
        (category_rows,),
        fixed={"categories": {0: names}, "epsilon": 50.0},
        bounds=((0, 1),),
        resolution=("auto", 3),
        **weights,
    )
    plain = modes(
        kind, (only_categories,), fixed={"categories": {0: names, 1: [*names, "d"]}, "epsilon": 20.0}, **weights
    )
    plain += modes(
        kind, (only_categories,), fixed={"categories": {0: names, 1: names}}, metric=("rows",), epsilon=(0.5, 2.0)
    )
    return flows + rows + mixed + plain


def _privatizers():
    kind, norms, data = sp.MetricPrivatizer, ("l1", "l2", "linf"), (default_data, one_column)
    mechanisms = ("k-norm", "exponential")
    rows = modes(kind, data, metric=norms, mechanism=mechanisms, bounds=((0, 1), (-1e6, 1e6)), resolution=(4,))
    rows += modes(kind, data, metric=norms, epsilon=(1e-3, 1.0, 1e3))
    rows += modes(kind, data, metric=norms, epsilon=(1e-3, 1.0, 1e3), bounds=((0, 1),), prior=("uniform",))
    rows += modes(
        kind,
        data,
        metric=norms,
        bounds=tuple(Ball(0.5, 1.0, norm) for norm in norms),
        out_of_bounds=("clip",),
        mechanism=mechanisms,
        epsilon=(0.1, 1e8),
        resolution=(4,),
    )
    places = modes(
        kind,
        (places_in_degrees,),
        metric=("haversine",),
        coordinates=("latitude-longitude", "longitude-latitude"),
        bounds=(None, ([10.0, 10.0], [20.0, 30.0]), ([-80.0, -80.0], [80.0, 80.0])),
        epsilon=(1e-3, 1.0, 1e3),
    )
    distances = [[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]]
    finite = modes(
        kind,
        (states,),
        fixed={"metric": "precomputed", "distances": distances},
        mechanism=("optimal", "exponential", "auto"),
        epsilon=(0.5, 3.0),
    )
    finite += modes(
        kind,
        (states,),
        fixed={"metric": "precomputed", "distances": distances, "mechanism": "optimal"},
        prior=([0.7, 0.2, 0.1],),
    )
    finite += modes(
        kind,
        (states,),
        fixed={
            "metric": "tree",
            "parents": {"a": "r", "b": "r", "c": "s", "r": "t", "s": "t"},
            "states": ["a", "b", "c"],
        },
        mechanism=("relaxed", "exponential", "optimal", "auto"),
        epsilon=(0.5, 3.0),
    )
    return rows + places + finite


_PREPROCESSOR_DATA = (
    users_of_many_rows,
    rows_of_one_user_each,
    ties_and_extremes,
    missing_values,
    names_of_users,
    rows_with_gaps,
    several_extremes,
    several_labels,
    several_numbers,
    far_rows,
)


def _preprocessors():
    data = _PREPROCESSOR_DATA
    ways = {"adjacency": BOTH, "delta": (0.0, 1e-6), "bounds": (None, (-2.0, 3.0))}
    imputers = modes(sp.preprocessing.PrivateImputer, data, strategy=("median", "mean"), **ways)
    # All combinations: noise of several categories is Gaussian with a delta and rows that are replaced.
    for make in (colours, rows_of_colours):
        imputers += modes(
            sp.preprocessing.PrivateImputer,
            (make,),
            fixed={"strategy": "most_frequent", "categories": ["red", "green", "blue"], "add_indicator": True},
            adjacency=BOTH,
            delta=(0.0, 1e-6),
        )
    scalers = modes(sp.preprocessing.PrivateStandardScaler, data, **ways)
    scalers += modes(
        sp.preprocessing.PrivateStandardScaler, data, with_mean=(False,), with_std=(True, False), adjacency=BOTH
    )
    bins = modes(sp.preprocessing.PrivateKBinsDiscretizer, data, n_bins=(2, 5), **ways)
    bins += modes(
        sp.preprocessing.PrivateKBinsDiscretizer, data, n_bins=(7,), encode=("ordinal", "onehot"), adjacency=BOTH
    )
    categories = []
    for make in (colours, rows_of_colours):
        categories += modes(sp.preprocessing.PrivateOneHotEncoder, (make,), max_categories=(1, 4), adjacency=BOTH)
    splines = modes(sp.preprocessing.PrivateSplineTransformer, data, n_knots=(5, 4), passthrough=(False, True), **ways)
    splines += modes(sp.preprocessing.PrivateSplineTransformer, data, n_knots=(5,), basis=("b-spline",), degree=(1, 3))
    return {
        sp.preprocessing.PrivateImputer: imputers,
        sp.preprocessing.PrivateStandardScaler: scalers,
        sp.preprocessing.PrivateKBinsDiscretizer: bins,
        sp.preprocessing.PrivateOneHotEncoder: categories,
        sp.preprocessing.PrivateQuantileTransformer: modes(
            sp.preprocessing.PrivateQuantileTransformer, data, n_quantiles=(3, 33), **ways
        ),
        sp.preprocessing.PrivateSplineTransformer: splines,
    }


def _searches():
    kind, data = sp.model_selection.PrivateSearchCV, (*_USER_DATA[:4], names_of_users)
    fixed = {"n_iter": 2, "epsilon": 4.0}
    classifiers = modes(
        kind,
        data,
        fixed={**fixed, "param_distributions": {"alpha": [0.0, 1.0]}, "score_bounds": (-2.0, 0.5)},
        estimator=[sp.UserLevelSGDClassifier(classes=[0, 1], max_iter=2, adjacency=each) for each in BOTH],
        scoring=("auto", "accuracy", "neg_brier_score", "neg_log_loss"),
        refit=(None, 0.4),
    )
    regressors = modes(
        kind,
        data,
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
        sp.UserLevelSelector(constant_candidates()), {"rule": ["votes"]}, delta=0.0, predict_by="batch", **fixed
    )
    return (
        classifiers
        + regressors
        + [*zip(pipelines, data, strict=False), (batch, names_of_users)]
        + [(labels, default_data), (halfspaces, private_by_label)]
    )


#: {class: [(instance, maker of data)]}
VARIANTS = {
    sp.UserLevelMean: _user_level_means(),
    sp.UserLevelSGDRegressor: _user_level_regressors(),
    sp.UserLevelSGDClassifier: _user_level_classifiers(),
    sp.UserLevelSelector: _selectors(),
    sp.CuratedBagGAMClassifier: _gam_classifiers(),
    sp.CuratedBagGAMRegressor: _gam_regressors(),
    **_random_bags(),
    sp.PPMHalfspaceClassifier: _halfspaces(),
    sp.MetricPrivateSynthesizer: _synthesizers(),
    sp.PrivateTableSynthesizer: _whole_tables(),
    sp.MetricPrivatizer: _privatizers(),
    **_preprocessors(),
    sp.model_selection.PrivateSearchCV: _searches(),
}
