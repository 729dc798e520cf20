"""Speed of exact noise and selection: skprivate, OpenDP (secure, exact) and NumPy (neither).

``python benchmarks/secure_noise.py [--size N] [--repeats R]``
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _common import parse_args, read_table, save_figure, write_table

from skprivate.privacy.noise import _bits as _randomness
from skprivate.privacy.noise._bits import bit_source
from skprivate.privacy.noise._samplers import integer_noise
from skprivate.privacy.noise._selection import (
    binomial_exp,
    exponential_select,
    exponential_select_rows,
    permute_and_flip_select,
)

SCALES = [(1.0, "1"), (10.0, "10"), (1e3, "10^3"), (1e4, "10^4"), (2.0**32, "2^32"), (2.0**45, "2^45")]
OPENDP_SIZE = 20_000


def fastest(call: Callable[[], Any], repeats: int) -> float:
    """Least processor seconds of ``call()`` on this thread: the machine's other work only ever adds."""
    call()
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return min(times)


def opendp_noise(kind: str, scale: float) -> Callable[[np.ndarray], Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    make, metric = {
        "laplace": (dp.m.make_laplace, dp.l1_distance(T="i64")),
        "gaussian": (dp.m.make_gaussian, dp.l2_distance(T="i64")),
    }[kind]
    return make(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)


def noise_rates(size: int, repeats: int) -> list[list[Any]]:
    secure, seeded = bit_source(None), bit_source(0)
    generator = np.random.default_rng(0)
    rows = []
    for kind in ("laplace", "gaussian"):
        for scale, name in SCALES:
            ours = size / fastest(lambda k=kind, s=scale: integer_noise(k, s, size, secure), repeats)
            with mock.patch.object(_randomness, "ssl", None):
                kernel = size / fastest(lambda k=kind, s=scale: integer_noise(k, s, size, secure), repeats)
            simulated = size / fastest(lambda k=kind, s=scale: integer_noise(k, s, size, seeded), repeats)
            measure = opendp_noise(kind, scale)
            zeros = np.zeros(OPENDP_SIZE, dtype=np.int64)
            opendp = OPENDP_SIZE / fastest(lambda m=measure, z=zeros: m(z), min(repeats, 3))
            numpy_draw = generator.laplace if kind == "laplace" else generator.normal
            numpy_rate = size / fastest(lambda d=numpy_draw, s=scale: d(0.0, s, size), repeats)
            rates = [rate / 1e6 for rate in (ours, kernel, simulated, opendp, numpy_rate)]
            rows.append([kind, name, *rates, ours / opendp])
    return rows


def call_times(repeats: int) -> list[list[Any]]:
    """Microseconds of a call for few values; OpenDP's include building the measurement, which has one use."""
    secure = bit_source(None)
    rows = []
    for size in (1, 10, 100, 1000):
        zeros = np.zeros(size, dtype=np.int64)
        for kind in ("laplace", "gaussian"):
            ours = fastest(lambda k=kind, n=size: integer_noise(k, 10.5, n, secure), 20 * repeats)
            theirs = fastest(lambda k=kind, z=zeros: opendp_noise(k, 10.5)(z), 5 * repeats)
            rows.append([kind, size, 1e6 * ours, 1e6 * theirs, theirs / ours])
    return rows


def limits(repeats: int) -> list[list[Any]]:
    """What the machine allows: entropy and memory."""
    n = 1 << 17
    secure, seeded = bit_source(None), bit_source(0)
    block = np.random.default_rng(0).random(1 << 14)
    out = np.empty_like(block)
    return [
        ["operating system (os.urandom), MB/s", n / fastest(lambda: os.urandom(n), 20 * repeats) / 1e6],
        ["secure source (OpenSSL, reseeded), MB/s", n / fastest(lambda: secure.bytes(n), 20 * repeats) / 1e6],
        ["seeded source (SFC64), MB/s", n / fastest(lambda: seeded.bytes(n), 20 * repeats) / 1e6],
        ["one pass of np.log over a cached block, M/s", 2**14 / fastest(lambda: np.log(block, out=out), 99) / 1e6],
        ["one pass of np.multiply, M/s", 2**14 / fastest(lambda: np.multiply(block, 2.0, out=out), 99) / 1e6],
    ]


def selections(repeats: int) -> list[list[Any]]:
    secure = bit_source(None)
    rng = np.random.default_rng(0)
    many = rng.integers(0, 1000, 10**6)
    many[0] = 0
    table = rng.integers(0, 1000, (10**5, 100))
    rate = Fraction(1, 100)
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("exponential mechanism, 10^6 candidates", lambda: exponential_select(many, rate, secure)),
        ("the same, 3 members each", lambda: exponential_select(many, rate, secure, [3] * 10**6)),
        ("permute-and-flip, 10^6 candidates", lambda: permute_and_flip_select(many, rate, secure)),
        (
            "permute-and-flip, 10^9 members in 2 categories",
            lambda: permute_and_flip_select([0, 5000], rate, secure, [1, 10**9]),
        ),
        ("Binomial(10^9, e^-1/3)", lambda: binomial_exp(10**9, Fraction(1, 3), secure)),
        ("exponential mechanism in 10^5 rows of 100", lambda: exponential_select_rows(table, rate, secure)),
        ("exponential mechanism, 10 candidates", lambda: exponential_select(many[:10], rate, secure)),
    ]
    rows = [[name, 1e3 * fastest(call, repeats)] for name, call in cases]
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    noisy_max = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=200.0)
    scores = (-many).astype(float)
    rows.append(["OpenDP noisy max (Gumbel), 10^6 candidates", 1e3 * fastest(lambda: noisy_max(scores), 3)])
    return rows


def main() -> None:
    args = parse_args(__doc__ or "", size={"type": int, "default": 10**6}, repeats={"type": int, "default": 7})
    columns = ["noise", "scale", "skprivate", "os.urandom only", "seeded", "OpenDP", "NumPy float", "ratio to OpenDP"]
    rates = noise_rates(args.size, args.repeats)
    write_table("secure_noise", columns, rates)
    write_table(
        "secure_noise_calls",
        ["noise", "values", "skprivate µs", "OpenDP µs", "OpenDP / skprivate"],
        call_times(args.repeats),
    )
    write_table("secure_noise_selection", ["selection", "ms"], selections(args.repeats))
    write_table("secure_noise_limits", ["limit", "value"], limits(args.repeats))
    draw()


def draw() -> None:
    """Draw the speed against the scale of the noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    series = [
        ("skprivate, secure and exact", 2, "C0", "o-"),
        ("NumPy, float and not secure", 6, "C5", "s--"),
        ("OpenDP, secure and exact", 5, "C1", "^-"),
    ]
    for axis, kind in zip(axes, ("laplace", "gaussian"), strict=True):
        part = [row for row in read_table("secure_noise") if row[0] == kind]
        for label, column, colour, style in series:
            axis.plot(range(len(part)), [float(row[column]) for row in part], style, color=colour, label=label)
        axis.set_xticks(range(len(part)), [f"${row[1].replace('^', '^{')}{'}' * ('^' in row[1])}$" for row in part])
        axis.set_xlabel("scale of the integer noise")
        axis.set_title({"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[kind])
        axis.set_yscale("log")
    axes[0].set_ylabel("million draws per second, one thread")
    axes[1].legend(frameon=False, fontsize=8, loc="center right")
    save_figure(figure, "secure_noise")


if __name__ == "__main__":
    main()
