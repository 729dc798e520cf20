"""A fitted hypothesis: public inside an intersection of halfspaces of the public points' span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skprivate.mixture._geometry import Floats, PublicFrame


@dataclass(frozen=True, eq=False)
class IntersectionRule:
    """Rows on the span whose margins ``normals @ scaled(x) + intercepts`` are all ≥ 0 are called public.

    Attributes
    ----------
    frame : PublicFrame
    normals : ndarray of shape (n_halfspaces, n_features)
        Unit normals in scaled units.
    intercepts : ndarray of shape (n_halfspaces,)
    all_private : bool
        True for the hypothesis that calls every row private.
    """

    frame: PublicFrame
    normals: Floats
    intercepts: Floats
    all_private: bool = False

    def margin(self, X: Floats) -> Floats:
        """Smallest margin of each row, in scaled units; minus the distance to the span for rows off it.

        Without halfspaces there is no boundary to measure from: the margin is then 1 on the span, and −1 everywhere
        for the hypothesis that calls every row private.
        """
        if self.all_private:
            return np.full(X.shape[0], -1.0)
        scaled = self.frame.scaled(X)
        margin = np.full(X.shape[0], 1.0)
        if self.intercepts.size:
            margin = (scaled @ self.normals.T + self.intercepts).min(axis=1)
        if self.frame.complement.shape[0]:
            distance = np.linalg.norm(scaled @ self.frame.complement.T, axis=1)
            margin = np.where(distance <= self.frame.slack, margin, np.minimum(margin, -distance))
        return margin
