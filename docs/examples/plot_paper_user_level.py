"""
User level: privacy costs as 1/n, and nobody can pay less than that
===================================================================

`Levy et al. (2021) <https://arxiv.org/abs/2102.11845>`_ protect all rows of a person together. The privacy error of a
mean falls as one over the number of users and as the root of the number of rows of each; Theorem 6 says that this is
the best possible rate.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import UserLevelMean
from skprivate.user_level import user_level_lower_bound, user_level_mean_errors

USERS, ROWS, D = (500, 2000, 8000, 32_000), 16, 5


def errors(n, seed):
    """Distances to the mean without noise and to the truth, 0, for users whose rows are standard normal."""
    means = np.random.default_rng([n, seed]).normal(size=(n, D)) / np.sqrt(ROWS)
    found = UserLevelMean(1.0, random_state=seed).fit(means).mean_
    return np.linalg.norm(found - means.mean(axis=0)), np.linalg.norm(found)


# %%
# ``user_level_mean_errors`` predicts the privacy error without looking at data. The lower bound is about the distance
# to the truth, which sampling dominates as users grow many.
measured = np.array([np.median([errors(n, seed) for seed in range(15)], axis=0) for n in USERS])
expected = [user_level_mean_errors(n, D, epsilon=1.0, deviation=ROWS**-0.5).privacy for n in USERS]
lowest = [user_level_lower_bound(n, ROWS, D, epsilon=1.0, radius=10.0) for n in USERS]
plt.loglog(USERS, measured[:, 0], "o-", label="to the mean without noise, measured")
plt.loglog(USERS, expected, "C0--", label="the same, predicted")
plt.loglog(USERS, measured[:, 1], "C1s-", label="to the truth, measured")
plt.loglog(USERS, lowest, "C1--", label="to the truth, least of all private means (Theorem 6)")
plt.xlabel("users")
plt.ylabel("distance, in deviations of a row")
plt.ylim(top=0.2)
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/user_level`.
