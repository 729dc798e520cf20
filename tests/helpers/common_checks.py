"""scikit-learn's common checks of variants, without those that depend on the class alone."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

#: They look at the signature, at parameters before a fit, or at the types of tags. `tests/test_common.py` makes them
#: once for every class. Unfitted methods are not among them: some exist with some parameters only.
OF_THE_CLASS = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_partial_fit_n_features",
    "check_fit_score_takes_y",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_valid_tag_types",
}


def parametrize_variants(estimators):
    """Parametrize a test with variants of estimators, and with the checks that depend on the variant."""
    mark = parametrize_with_checks(estimators)
    names, cases = mark.args
    kept = [case for case in cases if case[1].func.__name__ not in OF_THE_CLASS]
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


def check_class(estimator):
    """Make the checks that depend on the class alone, and two that scikit-learn leaves out of its suite."""
    _, cases = parametrize_with_checks([estimator]).args
    for instance, check in cases:
        if check.func.__name__ in OF_THE_CLASS:
            check(instance)
    check_param_validation(type(estimator).__name__, estimator)
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)
