"""One vector per user at a query point: the only thing the descent sees of the data.

Every problem offers ``user_gradients`` (for the published algorithms) and ``contribution_sum``: the sum over users of
weight·g/max(‖g‖, C), a sum of vectors of norm at most 1 whatever the data.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from skprivate.user_level._losses import CustomLoss, LinearLoss
from skprivate.user_level._users import UserGroups

FloatArray = npt.NDArray[np.float64]
#: Rows per block of temporary arrays.
BLOCK_ROWS = 16384


class UserProblem(Protocol):
    """Per-user mean gradients of an objective in ``n_coef`` unknowns."""

    n_coef: int
    groups: UserGroups

    def user_gradients(self, w: FloatArray) -> FloatArray:
        """Mean gradient of each user at ``w``: shape (n_users, n_coef)."""
        ...

    def gradient_norms(self, w: FloatArray) -> FloatArray:
        """ℓ2 norm of each user's mean gradient: shape (n_users,)."""
        ...

    def contribution_sum(self, w: FloatArray, radius: float) -> FloatArray:
        """Σ_u weight_u·g_u/max(‖g_u‖, radius): shape (n_coef,). Sensitivity 1 for one user added or removed."""
        ...


def unit_scale(norms: FloatArray, radius: float) -> FloatArray:
    """1/max(norm, radius), and 0 where the norm is 0 or not finite: such a user contributes nothing."""
    floor = np.maximum(norms, radius)
    usable = np.isfinite(norms) & (floor > 0.0)
    return np.asarray(np.divide(1.0, floor, out=np.zeros_like(floor), where=usable))


class _GradientProblem:
    """Defaults in terms of ``user_gradients``."""

    n_coef: int
    groups: UserGroups

    def user_gradients(self, w: FloatArray) -> FloatArray:
        raise NotImplementedError

    def gradient_norms(self, w: FloatArray) -> FloatArray:
        gradients = self.user_gradients(w)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", gradients, gradients)))

    def contribution_sum(self, w: FloatArray, radius: float) -> FloatArray:
        gradients = self.user_gradients(w)
        norms = np.sqrt(np.einsum("ij,ij->i", gradients, gradients))
        scale = unit_scale(norms, radius)
        if not np.isfinite(norms).all():  # 0·inf is NaN: clear what must not count
            gradients = np.where(np.isfinite(norms)[:, None], gradients, 0.0)
        return np.asarray((scale * self.groups.weights) @ gradients)


class MeanProblem(_GradientProblem):
    """½‖w − x_u‖² for one vector x_u per user: its minimiser is the mean of the users' vectors."""

    def __init__(self, vectors: FloatArray, groups: UserGroups) -> None:
        self.vectors = vectors
        self.groups = groups
        self.n_coef = vectors.shape[1]

    def user_gradients(self, w: FloatArray) -> FloatArray:
        return np.asarray(w - self.vectors)


class _RidgeTerm:
    """α/2·‖w‖² without the intercept, part of every user's objective."""

    def __init__(self, n_features: int, fit_intercept: bool, n_outputs: int, alpha: float) -> None:
        weights = np.full((n_outputs, n_features + fit_intercept), alpha)
        if fit_intercept:
            weights[:, -1] = 0.0
        self.diagonal: FloatArray = weights.ravel()
        self.alpha = alpha
        self.active = alpha > 0.0


class GramProblem(_GradientProblem):
    """Squared loss through each user's Gram matrix: g_u(w) = A_u w − b_u.

    Costs n_users·d² a step instead of n_rows·d, worth it when users have many more rows than there are features.
    """

    def __init__(
        self, X: FloatArray, y: FloatArray, groups: UserGroups, *, fit_intercept: bool, alpha: float
    ) -> None:
        n_features = X.shape[1]
        d = n_features + fit_intercept
        self.n_coef = d
        self.groups = groups
        self.gram: FloatArray = np.empty((groups.n_users, d, d))
        self.moment: FloatArray = np.empty((groups.n_users, d))
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            for users, rows in groups.batches_of_equal_size(BLOCK_ROWS):
                block = X[rows]
                if fit_intercept:
                    block = np.concatenate([block, np.ones((*rows.shape, 1))], axis=2)
                transposed = block.transpose(0, 2, 1)
                size = rows.shape[1]
                self.gram[users] = (transposed @ block) / size
                self.moment[users] = (transposed @ y[rows][:, :, None])[:, :, 0] / size
        ridge = _RidgeTerm(n_features, fit_intercept, 1, alpha)
        if ridge.active:
            diagonal = np.arange(d)
            self.gram[:, diagonal, diagonal] += ridge.diagonal

    def user_gradients(self, w: FloatArray) -> FloatArray:
        d = self.n_coef
        return np.asarray((self.gram.reshape(-1, d) @ w).reshape(-1, d) - self.moment)


class LinearProblem(_GradientProblem):
    """Any loss of a linear predictor with one or several outputs.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Copied once if the users' rows are not in order.
    y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        groups: UserGroups,
        loss: LinearLoss,
        *,
        fit_intercept: bool,
        alpha: float,
    ) -> None:
        if not groups.in_order:
            # One sorted copy costs less than reading scattered rows in every step.
            X, y, groups = X[groups.order], y[groups.order], groups.sorted()
        self.X = X
        self.y = y
        self.groups = groups
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.n_outputs = 1 if y.ndim == 1 else y.shape[1]
        self.n_coef = self.n_outputs * (X.shape[1] + fit_intercept)
        self.ridge = _RidgeTerm(X.shape[1], fit_intercept, self.n_outputs, alpha)
        self._square_norms: FloatArray | None = None

    def _predictor(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor without and with the intercept, of shape (n_rows, n_outputs)."""
        coef = w.reshape(self.n_outputs, -1)
        n_features = self.X.shape[1]
        slope = self.X @ coef[:, :n_features].T
        return slope, slope + coef[:, n_features] if self.fit_intercept else slope

    def _derivative(self, f: FloatArray) -> FloatArray:
        """Derivative in the linear predictor, of shape (n_rows, n_outputs)."""
        if self.y.ndim == 1:
            return self.loss.derivative(f[:, 0], self.y)[:, None]
        return self.loss.derivative(f, self.y)

    def user_gradients(self, w: FloatArray) -> FloatArray:
        derivative = self._derivative(self._predictor(w)[1])
        n_features = self.X.shape[1]
        gradients = np.empty((self.groups.n_users, self.n_outputs, n_features + self.fit_intercept))
        for k in range(self.n_outputs):
            gradients[:, k, :n_features] = self.groups.mean(self.X, derivative[:, k])
            if self.fit_intercept:
                gradients[:, k, n_features] = self.groups.mean(derivative[:, k])
        flat = gradients.reshape(self.groups.n_users, self.n_coef)
        if self.ridge.active:
            flat += self.ridge.diagonal * w
        return flat

    def gradient_norms(self, w: FloatArray) -> FloatArray:
        if not self.groups.singletons:
            return super().gradient_norms(w)
        return self._rows(w)[1]

    def contribution_sum(self, w: FloatArray, radius: float) -> FloatArray:
        if not self.groups.singletons:
            return super().contribution_sum(w, radius)
        derivative, norms = self._rows(w)
        scale = unit_scale(norms, radius) * self.groups.weights
        weighted = (np.where(np.isfinite(norms)[:, None], derivative, 0.0) * scale[:, None]).T
        total = weighted @ self.X
        if self.fit_intercept:
            total = np.concatenate([total, weighted.sum(axis=1, keepdims=True)], axis=1)
        flat: FloatArray = total.ravel()
        if self.ridge.active:
            flat = flat + self.ridge.diagonal * w * scale.sum()
        return flat

    def _rows(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives, and norms of the gradients φ'·x + αw, where every user has one row: no matrix of gradients."""
        slope, f = self._predictor(w)
        derivative = self._derivative(f)
        if self._square_norms is None:
            self._square_norms = np.einsum("ij,ij->i", self.X, self.X) + float(self.fit_intercept)
        squares = np.einsum("ij,ij->i", derivative, derivative) * self._square_norms
        if self.ridge.active:
            penalty = self.ridge.diagonal * w
            squares += 2.0 * self.ridge.alpha * np.einsum("ij,ij->i", derivative, slope) + penalty @ penalty
        return derivative, np.sqrt(np.maximum(squares, 0.0))


class CustomProblem(_GradientProblem):
    """A user-supplied loss through its per-row gradients, block by block."""

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        groups: UserGroups,
        loss: CustomLoss,
        *,
        fit_intercept: bool,
        alpha: float,
    ) -> None:
        self.X = X
        self.y = y
        self.groups = groups
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.n_coef = X.shape[1] + fit_intercept
        self.ridge = _RidgeTerm(X.shape[1], fit_intercept, 1, alpha)

    def user_gradients(self, w: FloatArray) -> FloatArray:
        gradients = np.zeros((self.groups.n_users, self.n_coef))
        for users, rows in self.groups.batches_of_equal_size(BLOCK_ROWS):
            flat = rows.ravel()
            block = self.X[flat]
            if self.fit_intercept:
                block = np.concatenate([block, np.ones((len(flat), 1))], axis=1)
            rowwise: Any = np.asarray(self.loss.gradient(block, self.y[flat], w.copy()), dtype=np.float64)
            if rowwise.shape != block.shape:
                raise ValueError(
                    f"loss.gradient must return an array of shape (n_rows, n_coef) = (…, {self.n_coef}), "
                    f"got {rowwise.ndim} dimensions with {rowwise.shape[-1] if rowwise.ndim else 0} columns."
                )
            gradients[users] = rowwise.reshape(*rows.shape, -1).mean(axis=1)
        if self.ridge.active:
            gradients += self.ridge.diagonal * w
        return gradients
