"""
An estimator of your own, with a guarantee and its checks
=========================================================

A private histogram: the mechanism is made of public numbers and knows its cost, and the estimator keeps what was
released. A check finds out whether the sensitivity is right. The rows are public: taxi trips in New York.
"""

import warnings
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.datasets import load_locations
from skprivate.privacy import Mechanism, PureEvent, SimulatedNoiseWarning, exact_sum
from skprivate.utils.estimator_checks import check_mechanism


@dataclass(frozen=True)
class Counts(Mechanism):
    edges: tuple[float, ...]
    epsilon: float
    sensitivity: int = 2  # an exchanged row leaves one bin and enters another
    theorem = "Laplace mechanism (Dwork, McSherry, Nissim and Smith 2006)"

    @property
    def events(self):
        return [(PureEvent(self.epsilon, "Laplace"), 1)]

    def run(self, X, release):
        bins = np.searchsorted(self.edges, X[:, 0], side="right")
        counts = exact_sum(1.0 * (np.arange(len(self.edges) + 1)[:, None] == bins))
        return release.laplace(counts, sensitivity=self.sensitivity, epsilon=self.epsilon, step=1.0)


class PrivateHistogram(PrivateEstimatorMixin, BaseEstimator):
    _parameter_constraints = PRIVACY_CONSTRAINTS | {"edges": [tuple]}

    def __init__(self, epsilon=1.0, *, edges=(0.0,), random_state=None, ledger=None):
        self.epsilon, self.edges, self.random_state, self.ledger = epsilon, edges, random_state, ledger

    @fit_context()
    def fit(self, X, y=None):
        if len(self.edges) == 0:
            raise ValueError("edges must hold a number, got none.")
        mechanism = Counts(self.edges, self.epsilon)
        X = validate_data(self, X, dtype=np.float64)
        with self._releasing(mechanism, unit="row", adjacency="replace-one") as release:
            self.counts_ = mechanism.run(X, release)
        return self


# %%
# The check runs a mechanism on small tables and on their neighbours. A sensitivity that is too small is found.
minutes = load_locations(as_frame=True).frame[["trip_duration"]] / 60
edges, few = tuple(range(0, 61, 3)), minutes.to_numpy()[:5]
check_mechanism(Counts(edges, 1.0), [few])
try:
    check_mechanism(Counts(edges, 1.0, sensitivity=1), [few])
except AssertionError as error:
    print(error)

# %%
# Two budgets. ``random_state=0`` makes a simulation, for a stable picture.
warnings.simplefilter("ignore", SimulatedNoiseWarning)
plt.hist(minutes, bins=edges, color="lightgrey", label="exact")
for epsilon, color in ((0.01, "C1"), (0.1, "C0")):
    model = PrivateHistogram(epsilon, edges=edges, random_state=0).fit(minutes)
    plt.stairs(model.counts_[1:-1], edges, color=color, label=f"ε = {epsilon}")
plt.gca().set(xlabel="duration, minutes", ylabel="trips", title="A private histogram")
plt.legend()
plt.show()

# %%
# The guide: :doc:`/guide/own_estimator`.
