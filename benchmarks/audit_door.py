"""Audits at the release: broken copies of every private estimator, and sound ones; sound functions, as black boxes.

python benchmarks/audit_door.py [--sound N] [--only NAME]

Every line is an estimator at ε = .5, 1, 4 with the data of benchmarks/audit_estimators.py. The faults are planted
from outside: in the samplers, between an estimator and its release, or in the claim.
"""

import inspect
import time
import warnings
import zlib
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from unittest import mock

import numpy as np
from _common import parse_args, write_table
from audit_estimators import EPSILONS, RECIPES

from skprivate.audit import audit_estimator, find_violation
from skprivate.privacy import gaussian_noise_multiplier
from skprivate.privacy._contributions import as_integers
from skprivate.privacy.draws import _draws
from skprivate.utils.discovery import all_estimators
from skprivate.utils.estimator_checks import half_noise

METHODS = ("laplace", "gaussian", "discrete_laplace", "discrete_gaussian", "select", "select_parts", "flow_laplace")
#: Of the functions' audits.
DELTA, CONFIDENCE = 1e-5, 0.999
#: Of the audits at the release: their default, stated here.
LEVEL = 1e-6
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
            self._tape.draw(draw, lambda: sample(draw.statistic))
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


def neighbour(name, recipe):
    """The data with one unit changed from one end to the other."""
    X, y = recipe["fit"]
    X, y = X.copy(), None if y is None else y.copy()
    if name == "MetricPrivateSynthesizer (rows)":
        return X[:-1], None
    if name == "MetricPrivateSynthesizer (wasserstein)":
        return recipe["neighbour"]  # all rows at once: distance 1
    if name == "MetricPrivatizer":
        X[0] = 1.0
    elif name == "PPMHalfspaceClassifier":
        X[np.flatnonzero(y)[0]] *= -1.0
    elif "Bag" in name:
        y[0] = 1 - y[0]
    elif name == "UserLevelSelector":
        y[0] = -y[0]
    elif y is None:  # a user's mean
        X[0] = -X[0]
    else:  # a user's gradient, at coefficients of zero
        y[0] = y[1]
    return X, y


def audit(cls, recipe, name, epsilon, spent=None):
    known = inspect.signature(cls.__init__).parameters
    parameters = {key: value for key, value in recipe["parameters"].items() if key in known}
    metric = recipe.get("claim", {}).get("adjacency") == "metric" or "(wasserstein)" in name
    return audit_estimator(
        cls(**parameters, epsilon=spent or epsilon),
        *recipe["fit"],
        neighbours=neighbour(name, recipe),
        fit_params=recipe.get("fit_params"),
        distance=recipe.get("distance", 1.0) if metric else None,
        epsilon=epsilon if spent else None,
        method="replay",
        confidence=1 - LEVEL,
    )


def lines(only):
    for name, cls in all_estimators():
        if name not in RECIPES or only not in name:
            continue
        for variant, make in RECIPES[name]:
            for epsilon in EPSILONS:
                takes = inspect.signature(make).parameters.get("epsilon")
                recipe = make(epsilon) if takes else make()
                if name == "UserLevelSelector":  # a tie would hide how much noise there is
                    recipe["fit"] = (np.ones((2, 1)), np.ones(2))
                yield name + variant, cls, recipe, epsilon


def sound_functions(rng):
    """Releases of a count, 0 or 1, that attain their claim exactly: (name, function, epsilon, delta)."""

    def response(epsilon):
        return lambda x: int((rng.random() < 1 / (1 + np.exp(-epsilon))) == x)

    def geometric(epsilon):
        p = -np.expm1(-epsilon)
        return lambda x: int(x + rng.geometric(p) - rng.geometric(p))

    def gaussian(epsilon):
        scale = gaussian_noise_multiplier(epsilon, DELTA)
        return lambda x: float(np.rint(1024 * (x + scale * rng.normal())) / 1024)

    def choice(epsilon):  # two of three scores move, one up and one down
        weights = np.exp(epsilon / 2 * np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]]))
        return lambda x: int(rng.choice(3, p=weights[x] / weights[x].sum()))

    for epsilon in EPSILONS:
        yield "randomised response", response(epsilon), epsilon, 0.0
        yield "geometric noise", geometric(epsilon), epsilon, 0.0
        yield "Gaussian noise", gaussian(epsilon), epsilon, DELTA
        yield "exponential mechanism", choice(epsilon), epsilon, 0.0


def audit_sound_functions(at_least):
    """Sound functions, audited: how many, how many refuted, processor seconds."""
    rng = np.random.default_rng(0)
    made = refuted = 0
    start = time.process_time()
    while made < at_least:
        for name, function, epsilon, delta in sound_functions(rng):
            options = {"epsilon": epsilon, "delta": delta, "confidence": CONFIDENCE, "random_state": made}
            found = find_violation(function, pairs=[((0,), (1,))], max_pairs=1, **options)
            made, refuted = made + 1, refuted + found.violated
            if found.violated:
                print(name, found, flush=True)
    return made, refuted, round(time.process_time() - start, 1)


def audit_faults(every):
    """A row of the table for each fault."""
    for fault, context in FAULTS.items():
        caught, applies, seconds, missed = 0, 0, 0.0, []
        for name, cls, recipe, epsilon in every:
            if ("sensit" in fault or "scale" in fault) and name == "MetricPrivatizer":
                continue  # its draw has no sensitivity to state
            start = time.process_time()
            with context() if context else nullcontext():
                found = audit(cls, recipe, name, epsilon, None if context else 2 * epsilon)
            seconds += time.process_time() - start
            applies, caught = applies + 1, caught + found.violated
            if not found.violated:
                missed.append(f"{name} {epsilon:g}")
        print(fault, caught, applies, f"{seconds:.1f} s", missed, flush=True)
        yield [fault, applies, caught, round(seconds, 1), ""]


def audit_sound(every, at_least):
    """Sound estimators, audited: how many, how many refuted, processor seconds."""
    made = refuted = 0
    largest = 0.0
    start = time.process_time()
    while made < at_least:
        for name, cls, recipe, epsilon in every:
            found = audit(cls, recipe, name, epsilon)
            made, refuted = made + 1, refuted + found.violated
            if found.evidence.law_tests:
                largest = max(largest, found.evidence.law_tests[0].z)
            if found.violated:
                print(found, flush=True)
    print("largest z of a sound law", round(largest, 2), flush=True)
    return made, refuted, round(time.process_time() - start, 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    args = parse_args(__doc__.splitlines()[0], sound={"type": int, "default": 1008}, only={"default": ""})
    every = list(lines(args.only))
    table = list(audit_faults(every))
    for name, (made, refuted, seconds), level in (
        ("none (sound)", audit_sound(every, args.sound), LEVEL),
        ("none (sound), find_violation", audit_sound_functions(args.sound), 1 - CONFIDENCE),
    ):
        table.append([name, made, refuted, seconds, f"{level * made:.3g}"])
        print(table[-1], flush=True)
    columns = ["fault", "audits", "refuted", "CPU seconds together", "false alarms expected at most"]
    if not args.only:
        write_table("audit_door", columns, table)
