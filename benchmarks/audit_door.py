"""Audits at the door: broken copies of every private estimator, and sound ones.

python benchmarks/audit_door.py [--sound N] [--only NAME]

Every line is an estimator at ε = .5, 1, 4 with the neighbour of benchmarks/audit_estimators.py. The faults are planted
from outside: in the samplers, between an estimator and its release, or in the claim.
"""

import inspect
import time
import warnings
import zlib
from collections import Counter
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from unittest import mock

import numpy as np
from _common import parse_args, write_table
from audit_estimators import EPSILONS, RECIPES

from skprivate.audit import audit_draws
from skprivate.privacy import _draws
from skprivate.privacy._lattice import as_integers
from skprivate.utils.discovery import all_estimators
from skprivate.utils.estimator_checks import half_noise

METHODS = (
    "laplace",
    "gaussian",
    "discrete_laplace",
    "discrete_gaussian",
    "select",
    "select_parts",
    "flow_laplace",
)
LOCAL = ("k_norm", "nearest")


def scaled(statistic, factor):
    """A statistic, or several, times a whole number."""
    if isinstance(statistic, (list, tuple)):
        return [scaled(part, factor) for part in statistic]
    exact = as_integers(statistic)
    return (np.asarray(statistic, dtype=float) if exact is None else exact) * factor


@contextmanager
def between(edit):
    """Let ``edit(statistic, sensitivity)`` change what estimators hand to their releases."""

    def broken(method):
        def draw(self, statistic, **options):
            statistic, sensitivity = edit(statistic, options.get("sensitivity", 1))
            if "sensitivity" in options:
                options["sensitivity"] = sensitivity
            return method(self, statistic, **options)

        return draw

    names = (*METHODS, *LOCAL)
    with mock.patch.multiple(_draws.Draws, **{name: broken(getattr(_draws.Draws, name)) for name in names}):
        yield


def halved(sensitivity):
    return Fraction(sensitivity) / 2 if isinstance(sensitivity, (int, Fraction)) else sensitivity / 2


def data_dependent(statistic, sensitivity):
    parts = statistic if isinstance(statistic, (list, tuple)) else [statistic]
    seen = sum(zlib.crc32(repr(np.asarray(part).tolist()).encode()) for part in parts)
    return statistic, sensitivity * (1 + seen % 1024 / 1024)


@contextmanager
def drawn_twice():
    """Each draw is made once more and not paid for."""
    perform = _draws.Draws._perform

    def twice(self, draw, sample):
        if self._tape is not None:
            self._tape.draw(draw, sample)
        return perform(self, draw, sample)

    with mock.patch.object(_draws.Draws, "_perform", twice):
        yield


FAULTS = {
    "half the noise in the sampler": half_noise,
    "twice the budget spent": None,
    "half the sensitivity": lambda: between(lambda s, d: (s, halved(d))),
    "clipped to a third too wide": lambda: between(lambda s, d: (scaled(s, 3), d)),
    "scale from the data": lambda: between(data_dependent),
    "a draw not charged": drawn_twice,
}


def audit(cls, recipe, name, epsilon, spent=None):
    cls, own = recipe.get("class", cls), cls
    known = inspect.signature(cls.__init__).parameters
    parameters = {key: value for key, value in recipe["parameters"].items() if key in known}
    metric = recipe.get("claim", {}).get("adjacency") == "metric" or "(wasserstein)" in name
    return audit_draws(
        cls(**parameters, epsilon=spent or epsilon),
        *recipe["fit"],
        neighbours=None
        if name == "CuratedBagGAMRegressor"
        else recipe["neighbour"],  # the audit finds worse ones
        fit_params=recipe.get("fit_params"),
        distance=recipe.get("distance", 1.0) if metric else None,
        epsilon=epsilon if spent or cls is not own else None,
    )


def lines(only):
    for name, cls in all_estimators():
        if name not in RECIPES or only not in name:
            continue
        for variant, make in RECIPES[name]:
            for epsilon in EPSILONS:
                yield name + variant, cls, make, epsilon


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    args = parse_args(__doc__.splitlines()[0], sound={"type": int, "default": 1008}, only={"default": ""})
    every = list(lines(args.only))
    table = []
    for fault, context in FAULTS.items():
        caught, applies, seconds, missed = 0, 0, 0.0, []
        for name, cls, make, epsilon in every:
            if ("sensit" in fault or "scale" in fault) and name == "MetricPrivatizer":
                continue  # its draw has no sensitivity to state
            recipe = make()
            start = time.process_time()
            with context() if context else nullcontext():
                found = audit(cls, recipe, name, epsilon, None if context else 2 * epsilon)
            seconds += time.process_time() - start
            applies, caught = applies + 1, caught + found.violated
            if not found.violated:
                missed.append(f"{name} {epsilon:g}")
        print(fault, caught, applies, f"{seconds:.1f} s", missed, flush=True)
        table.append([fault, applies, caught, round(seconds, 1)])
    refuted, largest, seconds, kinds = 0, 0.0, 0.0, Counter()
    rounds = -(-args.sound // len(every))
    for _ in range(rounds):
        for name, cls, make, epsilon in every:
            recipe = make()
            start = time.process_time()
            found = audit(cls, recipe, name, epsilon)
            seconds += time.process_time() - start
            refuted += found.violated
            kinds[name] += found.violated
            if found.law_tests:
                largest = max(largest, found.law_tests[0].z)
            if found.violated:
                print(found, flush=True)
    table.append(["none (sound)", rounds * len(every), refuted, round(seconds, 1)])
    print("largest z of a sound law", round(largest, 2), dict(+kinds))
    columns = ["fault", "audits", "refuted", "CPU seconds together"]
    if not args.only:
        write_table("audit_door", columns, table)
