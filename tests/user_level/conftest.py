from __future__ import annotations

import numpy as np
import pytest


class RecordingRelease:
    """Stands in for a `Release` in tests of the numerics: simulated noise, and a record of every draw."""

    def __init__(self, seed: int = 0, noise: float = 1.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.public_rng = np.random.default_rng(seed + 1)
        self.noise = noise
        self.draws: list[dict] = []

    def gaussian(self, value, *, sensitivity, noise_multiplier, step=1.0):
        value = np.asarray(value, dtype=float)
        self.draws.append(
            {"kind": "gaussian", "value": value, "sensitivity": sensitivity, "multiplier": noise_multiplier}
        )
        return (value + self.noise * sensitivity * noise_multiplier * self.rng.normal(size=value.shape)) * step

    def laplace(self, value, *, sensitivity, epsilon):
        value = np.asarray(value, dtype=float)
        self.draws.append({"kind": "laplace", "value": value, "sensitivity": sensitivity, "epsilon": epsilon})
        return value + self.noise * self.rng.laplace(scale=sensitivity / epsilon, size=value.shape)

    def select(self, scores, *, sensitivity, epsilon, monotone=False, multiplicity=None, locate=None):
        scores = np.asarray(scores, dtype=float)
        self.draws.append({"kind": "select", "value": scores, "epsilon": epsilon, "multiplicity": multiplicity})
        logits = epsilon * scores / sensitivity * (1.0 if monotone else 0.5)
        if multiplicity is not None:
            logits = logits + np.log(np.asarray(multiplicity, dtype=float))
        weights = np.exp(logits - logits.max())
        index = int(self.rng.choice(len(scores), p=weights / weights.sum()))
        if multiplicity is None:
            return index
        member = int(self.rng.integers(multiplicity[index]))
        return (index, member) if locate is None else locate(index, member)


@pytest.fixture
def recording_release():
    return RecordingRelease
