"""
A private mean with a confidence radius
=======================================

How long do diabetic patients stay in hospital? A patient with many stays counts once, and all stays of a patient are
protected together. ``confidence_radius_`` covers the noise and the choice of patients. The rows are public.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skprivate import SimulatedNoiseWarning, UserLevelMean
from skprivate.datasets import load_hospital

hospital = load_hospital(as_frame=True)
stays, patients = hospital.data[["days"]], hospital.user_ids
print(f"{len(stays)} stays of {len(set(patients))} patients")

# %%
# Nothing has to be known of the range. But here it is known: the table has stays of at most 14 days. ``tau`` is a
# public distance of most patients from the centre, and nobody within 2 ``tau`` is clipped: half of the range will do.
model = UserLevelMean(epsilon=1.0, tau=7.0).fit(stays, user_ids=patients)
print(model.privacy_guarantee_)
print(
    f"{model.mean_[0]:.2f} ± {model.confidence_radius_:.2f} days, noise of deviation {model.noise_scale_:.3f}"
)

# %%
# The mean, its radius and the guarantee may be published. The radius holds with 95 %, for any distribution within the
# range, so it is wide. Most of it is not noise: it remains where ε is large.
#
# Without ``tau`` the fit finds a range for clipping, and the radius follows from the patients' spread. Where patients
# are too few to tell how far long stays go on, it is NaN: the point has no bar. ``random_state=0`` makes a simulation,
# which must not be published.
warnings.simplefilter("ignore", SimulatedNoiseWarning)
exact = stays["days"].groupby(patients).mean().mean()
EPSILONS = [0.03, 0.1, 0.3, 1.0, 3.0]
for place, (tau, name) in enumerate([(7.0, "range known, tau = 7 days"), (None, "range not known")]):
    fits = [
        UserLevelMean(epsilon, tau=tau, random_state=0).fit(stays, user_ids=patients) for epsilon in EPSILONS
    ]
    plt.errorbar(
        np.arange(len(fits)) + 0.2 * place,
        [fit.mean_[0] for fit in fits],
        [fit.confidence_radius_ for fit in fits],
        fmt="os"[place],
        color=f"C{place}",
        capsize=4,
        label=name,
    )
plt.axhline(exact, color="black", ls="--", label="exact mean of these patients")
plt.xticks(range(len(EPSILONS)), [f"{epsilon:g}" for epsilon in EPSILONS])
plt.title("Private mean, with its confidence radius")
plt.xlabel("ε for one patient")
plt.ylabel("mean length of a stay, days")
plt.ylim(0, 8)
plt.legend(loc="lower left")
plt.show()

# %%
# The guide: :doc:`/guide/user_level`.
