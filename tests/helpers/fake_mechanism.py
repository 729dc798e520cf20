"""A small honest mechanism, and one with each fault that its contract forbids."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from skprivate import privacy
from skprivate.privacy import (
    CONTRIBUTION_STEP,
    BoundedRangeEvent,
    GaussianEvent,
    Mechanism,
    PureEvent,
    public_generator,
)


@dataclass(frozen=True)
class Summary(Mechanism):
    """Directions, orthants and a median bin of rows in the plane; the number of rows is public (replace-one)."""

    factor: int = 2  # 2 under replace-one adjacency, 1 under add-remove
    theorem = "Gaussian and Laplace noise, exponential mechanism"

    @property
    def events(self):
        return [(GaussianEvent(5.0, 2), 1), (PureEvent(0.5, "discrete Laplace"), 1), (BoundedRangeEvent(0.5), 1)]

    def run(self, data, release):
        total = self.total(self.contributions(data))
        direction = self.direction(release, total)
        counts = self.counts(release, self.orthants(data))
        return direction, counts, self.median(release, data)

    def contributions(self, data):
        return privacy.ball_contributions(np.ascontiguousarray(data.T), 1.0)

    def total(self, contributions):
        return privacy.exact_sum(contributions)

    def direction(self, release, total):
        return release.gaussian(total, sensitivity=self.factor * 2**30, noise_multiplier=5.0, step=CONTRIBUTION_STEP)

    def orthants(self, data):
        return np.bincount((data > 0) @ [1, 2], minlength=4)

    def counts(self, release, counts):
        return release.discrete_laplace(counts, sensitivity=self.factor, epsilon=0.5)

    monotone = False
    bins = 1000

    def edges(self, data):
        return np.linspace(-1, 1, self.bins + 1)[1:-1]

    def costs(self, data):
        places = np.searchsorted(self.edges(data), data[:, 0])
        counts = np.bincount(places, minlength=self.bins)
        below = np.cumsum(counts) - counts
        return np.maximum(below, len(data) - below - counts)

    def median(self, release, data):
        costs = self.costs(data)
        first = np.flatnonzero(np.append(True, np.diff(costs) != 0))
        lengths = np.diff(np.append(first, costs.size))
        return release.select(
            -costs[first],
            sensitivity=1,
            epsilon=0.5,
            monotone=self.monotone,
            multiplicity=lengths.tolist(),
            locate=lambda run, member: int(first[run]) + member,
        )


def _fault(name, **members):
    return dataclass(frozen=True)(type(name, (Summary,), {"__module__": __name__, **members}))


def _wraps(self, contributions):
    return contributions.astype(np.int32).sum(axis=1, dtype=np.int32)


def _unique(self, data):
    return Summary.contributions(self, np.unique(data, axis=0))


def _switch(self, data):
    if len(data) < 6:
        return Summary.contributions(self, data)
    scale = 1.0 / np.maximum(np.hypot(*data.T), 1.0)
    return np.trunc(data.T * scale * (2**30 - 8))


def _extra(self, data, release):
    release.discrete_laplace([len(data)], sensitivity=1, epsilon=1e-3)
    return Summary.run(self, data, release)


def _skips(self, release, counts):
    return Summary.counts(self, release, counts) if counts[0] else counts


def _remembers(self, data, release):
    object.__setattr__(self, "seen", float(data[0, 0]))
    return Summary.run(self, data, release)


def _warns(self, data):
    if np.max(np.abs(data)) > 1e100:
        warnings.warn("overflow", RuntimeWarning, stacklevel=2)
    return Summary.contributions(self, data)


def _refuses(self, data):
    if np.max(np.abs(data)) > 1e100:
        raise ValueError("too large")
    return Summary.contributions(self, data)


def _own_randomness(self, data, release):
    return (*Summary.run(self, data, release), public_generator(None).random())


def _scale(data):
    return Summary.contributions(None, data / max(1e-9, min(1e9, np.abs(data).max())))


def _float_norms(self, data):
    norms = np.sqrt(np.square(data).sum(axis=1))
    with np.errstate(all="ignore"):
        unit = np.where(norms[:, None] > 0, data / np.maximum(norms, 1e-170)[:, None], 0.0)
    return np.trunc(np.nan_to_num(unit.T) * 2**30)


def _mean(self, release, total):
    value = np.asarray(total, dtype=np.float64) * CONTRIBUTION_STEP / 3.0
    return 3.0 * release.gaussian(value, sensitivity=self.factor / 3.0, noise_multiplier=5.0)


FAULTS = {
    "sensitivity of the other adjacency": _fault(
        "Halved", direction=lambda self, release, total: Summary().__class__(1).direction(release, total)
    ),
    "integer sensitivity one too small": _fault(
        "OneLess", counts=lambda self, r, c: r.discrete_laplace(c, sensitivity=self.factor - 1, epsilon=0.5)
    ),
    "no clipping": _fault("NoClip", contributions=lambda self, data: np.trunc(np.clip(data.T, -8, 8) * 2.0**30)),
    "rounds to nearest without a margin": _fault(
        "Nearest",
        contributions=lambda self, data: np.rint((data / np.maximum(np.hypot(*data.T), 1.0)[:, None]).T * 2.0**30),
    ),
    "squares underflow": _fault("Underflow", contributions=_float_norms),
    "uses a row twice": _fault(
        "Twice", contributions=lambda self, data: Summary.contributions(self, np.append(data, data[-1:], axis=0))
    ),
    "uses a row twice where it is large": _fault(
        "TwiceLarge",
        contributions=lambda self, data: Summary.contributions(self, np.append(data, data[data[:, 0] > 1e8], axis=0)),
    ),
    "scale of the data": _fault("Scaled", contributions=lambda self, data: _scale(data)),
    "centres by the mean": _fault(
        "Centred", contributions=lambda self, data: Summary.contributions(self, data - np.clip(data, -1, 1).mean(0))
    ),
    "drops duplicates": _fault("Unique", contributions=_unique),
    "ranks the rows": _fault(
        "Ranked",
        contributions=lambda self, data: np.trunc(
            Summary.contributions(self, data) / (1 + np.argsort(np.argsort(data[:, 0])))
        ),
    ),
    "wraps around": _fault("Wraps", total=_wraps),
    "sums floats": _fault("Floats", direction=_mean),
    "leak into the scale": _fault(
        "LeaksScale",
        direction=lambda self, r, total: r.gaussian(
            total,
            sensitivity=2**31 * (1 + 1e-9 * float(abs(total[0]) > 2**31)),
            noise_multiplier=5.0,
            step=CONTRIBUTION_STEP,
        ),
    ),
    "leak into the step": _fault(
        "LeaksStep",
        direction=lambda self, r, total: r.gaussian(
            total, sensitivity=2**31, noise_multiplier=5.0, step=2.0**-30 if total[0] > 0 else 2.0**-29
        ),
    ),
    "leak into the plan": _fault(
        "LeaksPlan",
        direction=lambda self, r, total: r.gaussian(
            total, sensitivity=2**31, noise_multiplier=5.0 + float(total[0] > 0), step=CONTRIBUTION_STEP
        ),
    ),
    "draws less than planned": _fault("Less", counts=lambda self, release, counts: counts * 0),
    "draws less on some data": _fault("LessSometimes", counts=_skips),
    "draws more than planned": _fault("More", run=_extra),
    "cheaper in the plan": _fault(
        "Cheap", events=property(lambda self: [(GaussianEvent(50.0, 2), 1), *Summary().events[1:]])
    ),
    "returns the statistic": _fault(
        "Raw", direction=lambda self, r, total: (Summary.direction(self, r, total), total)[1]
    ),
    "returns a count beside the noise": _fault(
        "RawCount", counts=lambda self, r, counts: (Summary.counts(self, r, counts), int(counts[0]))
    ),
    "remembers a row": _fault("Remembers", run=_remembers),
    "names no theorem": _fault("NoTheorem", theorem=""),
    "declared monotone, but is not": _fault("Monotone", monotone=True),
    "scores of sensitivity two": _fault("Steep", costs=lambda self, data: 2 * Summary.costs(self, data)),
    "as many candidates as there are values": _fault(
        "Candidates", edges=lambda self, data: np.unique(np.clip(data[:, 0], -1, 1))
    ),
    "candidates between extremes of the data": _fault(
        "PrivateEdges", edges=lambda self, data: np.linspace(*np.clip([data.min(), data.max()], -1e9, 1e9), 1001)[1:-1]
    ),
    "warns of values": _fault("Warns", contributions=_warns),
    "refuses values": _fault("Refuses", contributions=_refuses),
    "noise of its own": _fault("Own", run=_own_randomness),
}
#: Under add-remove adjacency the number of rows is private.
ADD_REMOVE_FAULTS = {
    "other arithmetic for more rows": _fault("Switch", contributions=_switch),
    "divides by the number of rows": _fault(
        "Divides",
        direction=lambda self, r, total: Summary.direction(self, r, np.asarray(total) // (1 + abs(int(total[0])) % 2)),
    ),
    "returns the number of rows": _fault("Size", run=lambda self, x, r: (*Summary.run(self, x, r), len(x))),
    "bins by the number of rows": _fault(
        "BinsByRows",
        orthants=lambda self, data: np.bincount(
            (data > 0) @ [1, 2] if len(data) % 2 else (data < 0) @ [1, 2], minlength=4
        ),
    ),
}


class Thawed(Summary):
    """Not frozen: has attributes of its own that change."""

    def __init__(self):
        object.__setattr__(self, "factor", 2)
        object.__setattr__(self, "runs", [0])

    def run(self, data, release):
        self.runs[0] += 1
        return super().run(data, release)


FAULTS["counts its runs"] = Thawed
