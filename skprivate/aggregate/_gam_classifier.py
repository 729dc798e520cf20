"""Classifier from curated bags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from skprivate._sklearn import _fit_context
from skprivate._validation import check_classes, distinct_labels, read_labels, two_or_more
from skprivate.aggregate import _classifier, _gam_base, _losses
from skprivate.aggregate.random._bags import no_labels
from skprivate.aggregate.tables import _aggregation, _curated_bags, _labels, _sums
from skprivate.privacy import PrivacyLedger


class CuratedBagGAMClassifier(_classifier.BagClassifierMixin, _gam_base.BaseCuratedBagGAM):
    """Additive classifier that learns from class counts per bag only.

    The score is the intercept plus one table lookup (or a small network) per feature set, and the fit minimises

        Σ_rows LogSumExp(score) − Σ_sets Σ_bags (label sum)·(coefficient) + ½ Σ penalty·coefficient²,

    in which labels appear as sums per bag: with ``epsilon=None`` it is exactly the fit to individual labels.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss bound, ε > 0, of the label of one row. None: exact label sums, no label privacy.
    delta : float, default=1e-6
        Probability, in [0, 1), that the bound may fail. With 0, discrete Laplace noise is used; otherwise the noise
        with the smaller variance, which is Gaussian from about nine feature sets on.
    feature_sets : {"auto", "pairs", "singles"}, int, or list, default="auto"
        "pairs": each column and each pair of columns; "singles": each column; an int: each column and that many
        pairs, chosen by the features' entropy; a list of sets, each a column or a tuple of columns by name or
        position. The privacy budget is shared by all sets: "auto" takes pairs (the 100 widest) if there are
        enough rows for the noise of all these tables, else columns alone, by public numbers.
    min_size : int, optional
        Bags of fewer rows, by their public counts, are small. By default 10, or a tenth of the
        rows if there are fewer than 100; of crosses that are not listed, a tenth of the noise variance of a sum (in
        squares of the largest label) if that is more.
    small_bags : {"merge", "drop"}, default="merge"
        Whether the small bags of a set become one bag, or are left out: their rows get 0 from the set. One set at
        least must have no small bag, for the sum of all labels.
    penalty : "evidence", float, or (float, float), default="evidence"
        ℓ2 penalties. "evidence" estimates one per feature set from the (noisy) label sums by marginal likelihood,
        the noise variance being known: post-processing, which costs no budget. A pair is for (columns, crosses).
    submodel : {"crosses", "factors", "mlp"} or callable, default="crosses"
        "crosses": a table of coefficients per set. "factors": tables of columns; a cross is the inner product of
        embeddings of its columns, which all crosses share. "mlp": a network on embeddings of the set's columns (needs
        torch). A callable makes, once a set, a ``torch.nn.Module`` from codes (n_bags, n_columns) to outputs: it gets
        the set (``columns`` by position in X, ``radices``, the number of codes of each) and the number of outputs.
    submodel_options : dict, optional
        For factors: ``embedding`` 4, ``weight_decays`` (4, 12, 36, 108), of which the released sums choose. For
        networks: ``hidden`` (16,), ``embedding`` 8, ``shared_embeddings`` False, ``weight_decay`` 1.0, ``epochs`` 300,
        ``learning_rate`` 0.01.
    classes : sequence, optional
        Public class labels. By default the distinct labels of y, *taken as public*. With ``epsilon``, a label outside
        them counts as none of the classes (for two classes: not as the second): an error would tell that there is one.
    categorical_features : "from_dtype", "all" or list, default="from_dtype"
        Columns taken as they are. Numeric columns are cut into bins otherwise: frequent values are bins of their own,
        the others are cut at quantiles of the public features.
    n_bins : int, optional
        Bins of a numeric column, about; by default the cube root of n_samples, between 2 and 16.
    bin_edges : dict from column name to increasing floats, optional
        Public edges of the bins of numeric columns, in place of quantiles.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
        Noise on label sums; "auto" takes the one with the smallest variance that (ε, δ) allow.
    tol : float, default=1e-6
        Gradient tolerance of the fit, in the solver's scaled variables.
    max_iter : int, default=500
        Most iterations of the solver.
    <random_state, ledger>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of such for multilabel targets
        Class labels.
    feature_sets_ : list of tuple of str
        Sets that have at least one bag.
    tables_ : list of ndarray of shape (n_bags, 1), (n_bags, n_classes) or (n_bags, n_labels)
        Coefficients of the bags of each set, in the order of ``bags_.tables``.
    intercept_ : ndarray of shape (1,), (n_classes,) or (n_labels,)
        Log-odds, or logits of the classes, where all tables are 0.
    penalties_ : ndarray of shape (n_sets,), or (n_sets, n_labels) for multilabel targets
        None for factors and networks.
    bags_ : CuratedBags
        What was released about the labels.
    n_iter_ : int
        Updates of the penalties, or evaluations of the objective if they were given.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    CuratedBagGAMRegressor : Learns numbers instead of classes.
    RandomBagClassifier : Learns from random bags.
    make_curated_bags : Makes the bags, once for many fits.
    sklearn.linear_model.LogisticRegression : Learns from individual labels, without privacy.

    Notes
    -----
    (ε, δ)-label differential privacy under replacement of one row's label, or of all its labels: features and counts
    are public and not protected. All attributes are released. Several labels are in one release, and each has a
    model of its own. A value that was not seen in ``fit`` contributes 0 to the score.

    References
    ----------
    Chen, Fu, Karbasi and Mirrokni (2023), "Learning from Aggregated Data: Curated Bags versus Random Bags",
    Theorem 1.

    Examples
    --------
    >>> from skprivate import CuratedBagGAMClassifier
    >>> from skprivate.datasets import load_adult
    >>> X, y = load_adult(return_X_y=True, as_frame=True)
    >>> columns = ["education", "occupation", "relationship"]
    >>> model = CuratedBagGAMClassifier(epsilon=1.0, random_state=0).fit(X[columns], y)
    >>> bool(model.score(X[columns], y) > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_gam_base.GAM_CONSTRAINTS,
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        delta: float = 1e-6,
        feature_sets: Literal["auto", "pairs", "singles"] | int | list[Any] | tuple[Any, ...] = "auto",
        min_size: int | None = None,
        small_bags: Literal["merge", "drop"] = "merge",
        penalty: float | tuple[float, float] | Literal["evidence"] = "evidence",
        submodel: Literal["crosses", "factors", "mlp"] | Callable[..., Any] = "crosses",
        submodel_options: dict[str, Any] | None = None,
        classes: ArrayLike | None = None,
        categorical_features: ArrayLike = "from_dtype",
        n_bins: int | None = None,
        bin_edges: dict[Any, Any] | None = None,
        mechanism: Literal["auto", "laplace", "gaussian", "discrete_gaussian"] = "auto",
        tol: float = 1e-6,
        max_iter: int = 500,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_sets = feature_sets
        self.min_size = min_size
        self.small_bags = small_bags
        self.penalty = penalty
        self.submodel = submodel
        self.submodel_options = submodel_options
        self.classes = classes
        self.categorical_features = categorical_features
        self.n_bins = n_bins
        self.bin_edges = bin_edges
        self.mechanism = mechanism
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Aggregate the labels, forget them, and learn from the aggregates.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or rows in blocks
            Public features of any type; missing values are a value of their own. Of blocks
            (`skprivate.partitions`) the codes of all features are held in memory, labels are not.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or column of X where it lies in blocks
            Class labels, or a 0/1 indicator matrix; private. With ``epsilon``, other entries of a matrix count as 0.

        Returns
        -------
        self
        """
        self._check_penalty()
        given = None if self.classes is None else check_classes(self.classes)
        strict = self.epsilon is None

        def choose_targets(labels: list[Any], n_columns: int) -> tuple[list[Any], Callable[[Any], _losses.FloatArray]]:
            if n_columns > 1:
                return [(0, 1)] * n_columns, partial(_labels.indicator_targets, strict=strict)
            classes = two_or_more(labels if given is None else given, self)
            return classes, partial(_labels.class_targets, classes=classes, strict=strict)

        read = partial(read_labels, classes=given)
        look = distinct_labels if given is None else no_labels
        coded, classes = self._code(X, y, read, look, choose_targets)
        given = None if _labels.are_labels(classes) else given

        def plan(membership: _aggregation.Membership) -> _sums.ClassSums:
            return _sums.ClassSums.plan(
                membership,
                *_sums.outputs_of(classes),
                classes=given,
                epsilon=self.epsilon,
                delta=self.delta,
                mechanism=self.mechanism,
            )

        self._read_classes(tuple(classes), _sums.outputs_of(classes)[0])
        self._aggregate(*coded, plan, 1.0, tuple(classes))
        return self

    def predict_proba(self, X: Any) -> _losses.FloatArray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes); for multilabel targets, (n_samples, n_labels)
        """
        scores = self._scores(X)
        if self._loss(scores.shape[1]).name == "multinomial":
            return softmax(scores, axis=1)
        positive = expit(scores)
        return np.hstack([1 - positive, positive]) if self._is_binary() else positive

    def _loss(self, n_outputs: int) -> _losses.SquaredLoss:
        return _losses.BUILT_IN["log" if n_outputs == 1 or self._is_multilabel() else "multinomial"]

    def _check_bags(self, bags: _curated_bags.CuratedBags) -> None:
        if bags.classes is None:
            raise ValueError(
                "bags hold sums of numbers; use CuratedBagGAMRegressor, or aggregate class labels (in tables of your "
                "own: from_frames(classes=(0, 1)))."
            )
        self._read_classes(bags.classes, bags.n_outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
