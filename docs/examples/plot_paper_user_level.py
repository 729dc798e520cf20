"""
User level: privacy costs as 1/n, and nobody can pay less than that
===================================================================

`Levy et al. (2021) <https://arxiv.org/abs/2102.11845>`_ protect all rows of a person together. The privacy error of a
mean falls as one over the number of users and as the root of the number of rows of each; Theorem 6 says that this is
the best possible rate.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import UserLevelMean, UserLevelSGDRegressor
from skprivate.papers.user_level import Plan, phased_erm, winsorized_erm
from skprivate.papers.user_level_bounds import lower_bound
from skprivate.user_level import user_level_mean_errors

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
lowest = [lower_bound(n, ROWS, D, epsilon=1.0, radius=10.0) for n in USERS]
plt.loglog(USERS, measured[:, 0], "o-", label="to the mean without noise, measured")
plt.loglog(USERS, expected, "C0--", label="the same, predicted")
plt.loglog(USERS, measured[:, 1], "C1s-", label="to the truth, measured")
plt.loglog(USERS, lowest, "C1--", label="to the truth, least of all private means (Theorem 6)")
plt.xticks(USERS, [f"{n:,}".replace(",", " ") for n in USERS])
plt.minorticks_off()
plt.title("Means of 5 columns, ε = 1, 16 rows a user")
plt.xlabel("users")
plt.ylabel("distance, in deviations of a row")
plt.ylim(top=0.2)
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/user_level`.

# %%
# Regression as published: Algorithm 4, and Algorithm 5 in phases on disjoint users, beside the estimator. The
# published constants and composition need far more users.
w, options = np.array([0.5, -0.3]), {"fit_intercept": False, "random_state": 0}
plan = Plan(epsilon=10.0, delta=1e-6, n_steps=8, tau=2.0, bound=20.0, gamma=0.05, step=0.7, radius=1.0)
distances = []
for n in (2000, 8000, 32_000):
    rng, users = np.random.default_rng(n), np.arange(4 * n) // 4
    X = rng.normal(size=(4 * n, 2))
    y = X @ w + 0.5 * rng.normal(size=4 * n)
    found = (
        winsorized_erm(X, y, users, plan, **options).coef,
        phased_erm(X, y, users, plan, regularisation=1e-3, **options).coef,
        UserLevelSGDRegressor(10.0, **options).fit(X, y, user_ids=users).coef_,
    )
    distances.append([np.linalg.norm(coef - w) for coef in found])
plt.loglog(
    (2000, 8000, 32_000), distances, "o-", label=("Algorithm 4", "Algorithm 5", "UserLevelSGDRegressor")
)
plt.xticks((2000, 8000, 32_000), ("2 000", "8 000", "32 000"), minor=False)
plt.minorticks_off()
plt.title("Regression with 2 coefficients, ε = 10")
plt.xlabel("users, of 4 rows each")
plt.ylabel("distance to the true coefficients")
plt.legend()
plt.show()
