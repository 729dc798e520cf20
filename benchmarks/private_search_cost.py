"""The table of docs/theory/private_search_cost.md: what a search leaves one evaluation, by law and mean."""

from __future__ import annotations

import math

from skprivate.privacy import (
    GaussianEvent,
    PureEvent,
    Repetitions,
    compose_epsilon,
    gaussian_noise_multiplier,
    plan_search,
)

EPSILON, DELTA = 1.0, 1e-6


def pure(epsilon: float, delta: float) -> list:
    return [[(PureEvent(epsilon), 1)]]


def gaussian(epsilon: float, delta: float) -> list:
    return [[(GaussianEvent(gaussian_noise_multiplier(epsilon, DELTA)), 1)]]


def main() -> None:
    print("| mean | law | pure | Gaussian | P(K = 1) | rank |\n|---:|---|---:|---:|---:|---:|")
    for mean in (5, 10, 30, 100):
        laws = {
            "logarithmic (η = 0)": Repetitions("negative-binomial", mean, 0.0),
            "geometric (η = 1)": Repetitions("negative-binomial", mean, 1.0),
            "Poisson": Repetitions("poisson", mean),
        }
        for name, law in laws.items():
            plans = [
                plan_search(plans_of, epsilon=EPSILON, delta=delta, mean_repetitions=mean, laws=[law])
                for plans_of, delta in ((pure, 0.0), (gaussian, DELTA))
            ]
            once = law.mean * math.exp(float(law.log_weight(1.0)))
            each = " | ".join(f"{plan.each_epsilon:.3f}" for plan in plans)
            print(f"| {mean} | {name} | {each} | {once:.2f} | {law.expected_rank:.2f} |")
        multiplier = gaussian_noise_multiplier(EPSILON, DELTA, mean)
        alone = compose_epsilon([(GaussianEvent(multiplier), 1)], DELTA)
        print(f"| {mean} | all published | {EPSILON / mean:.3f} | {alone:.3f} | | {mean / (mean + 1):.2f} |")


if __name__ == "__main__":
    main()
