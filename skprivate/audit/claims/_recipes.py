"""Data of worst cases for arithmetic and counts, and changes of one of their units.

Nothing here depends on an estimator: what it does not accept is refused, and noted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skprivate.audit.claims._neighbours import Pair, Surroundings, box_of, random_size
from skprivate.privacy import KEEPS_IDENTIFIER, Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.utils import EXTREMES, CheckData, changes

#: Sizes whose squares underflow or overflow.
_SQUARES = (1.5e-162, 1.34e154)
_COUNTS = (1, 2, 3, 5, 8, 30, 31, 32, 33, 100, 103, 401, 401, 1001)
#: Numbers of users where everybody's contribution moves, each by no more than one may.
_CROWDS = (400, 1000, 3000, 6000)
_FURTHER = "a further row"
_WIDE: tuple[int, ...] = (1000, 4000)
_COLUMNS: tuple[int, ...] = (1, 1, 2, 3, 7, 20, 100, *_WIDE)
#: Numbers in X: most pairs are small, so that many are looked at.
_CELLS = (300, 300, 3_000, 3_000, 30_000)
_KINDS = ("zero", "constant", "one axis", "uniform", "normal", "few different", "collinear", "extremes")
_ROWS_EACH = {"absent": 1, "one row each": 1, "two rows each": 2, "five rows each": 5, "unequal": 1}
#: Shares of the way between the ends of a target; None: any.
_TARGETS = {"low": 0.0, "high": 1.0, "middle": 0.5, "uniform": None, "alternating": None}


class Recipes:
    """Draws data, by recipes that combine few extremes at a time, and pairs of them that differ in one unit."""

    def __init__(self, place: Surroundings, settings: list[dict[str, Any]], rng: np.random.Generator) -> None:
        self.place, self.settings, self.rng = place, settings, rng
        unit, adjacency = PrivacyUnit(place.claim.unit), Adjacency(place.claim.adjacency)
        self.relation = PrivacyGuarantee(1.0, 0.0, unit, adjacency, assumptions=(KEEPS_IDENTIFIER,))

    def pair(self, **fixed: Any) -> Pair:
        """Draw data and two changes of one of their units; ``fixed`` parts of the recipe are given."""
        settings = self.settings[0 if self.rng.random() < 0.5 else int(self.rng.integers(len(self.settings)))]
        recipe = {**self._recipe(), **fixed}
        with np.errstate(all="ignore"):
            data = self._data(recipe, settings)
            steps = list(changes(None, data, self.relation, self.rng, 1))
            moves = [step for step in steps if step.moves_rows]
            further = [step for step in moves if step.name.endswith(_FURTHER)]
            if further and recipe["n"] in _CROWDS:
                one = other = further[0]
            else:
                one, other = (self._one(moves if moves and self._chance(0.5) else steps) for _ in range(2))
            made = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in recipe.items())
            if one is other or self.relation.adjacency is Adjacency.ADD_REMOVE or self._chance(0.5):
                sides, made = (data, other.apply(data)), f"{made}; {other.name}"
            else:
                sides, made = (one.apply(data), other.apply(data)), f"{made}; {one.name}; {other.name}"
        first, second = (self._within(side, settings) for side in sides)
        return Pair(first, second, settings, None, made)

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _one(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def _recipe(self) -> dict[str, Any]:
        place = self.place
        given = place.example.X is not None or place.make_data is not None
        recipe = {
            "rows": "given" if given and self._chance(0.5) else self._one(_KINDS),
            "n": None if place.example.X is not None and self._chance(0.5) else self._one(_COUNTS),
            "columns": None if given and self._chance(0.5) else self._one(_COLUMNS),
            "cells": self._one(_CELLS),
            "size": random_size(self.rng) if self._chance(0.5) else 1.0,
        }
        if place.has_target:
            recipe["target"] = self._one([*_TARGETS, *(["given"] if given else [])])
            recipe["target size"] = random_size(self.rng) if self._chance(0.25) else 1.0
            recipe["outputs"] = self._one((0, 0, 0, 0, 2, 5, 30)) if place.several_outputs else 0
        users = place.has_users and place.claim.unit == "user"
        if users:
            recipe["users"] = self._one(list(_ROWS_EACH))
        scene = self.rng.random()
        if users and scene < 0.3:  # a row more or less of one may change how the others are computed
            recipe |= {"rows": "constant", "n": self._one(_CROWDS), "columns": self._one((1, 1, 2))}
            recipe |= {"cells": 30_000, "users": self._one(("one row each", "two rows each"))}
            recipe |= {"target": self._one(("high", "alternating"))} if place.has_target else {}
            recipe["size"] = self._square() if self._chance(0.5) else recipe["size"]
        elif scene > 0.85 and place.claim.unit != "label":  # squares end, but for one
            recipe |= {"rows": "one entry larger", "n": 1, "size": self._square(), "outputs": 0}
            recipe["columns"] = recipe["columns"] and self._one(_WIDE)
        return recipe

    def _square(self) -> float:
        return float(self._one(_SQUARES)) * float(2.0 ** self.rng.uniform(-1, 1))

    # --- from recipes to data ----------------------------------------------------------------------------------------

    def _data(self, recipe: dict[str, Any], settings: dict[str, Any]) -> CheckData:
        """Make the data of a recipe."""
        place, example = self.place, self.place.example
        n = len(example.X) if recipe["n"] is None else recipe["n"]
        if recipe["rows"] == "given" and place.make_data is not None:
            X, y = (*place.make_data(self.rng, max(n, 4)), None)[:2]
            example = CheckData(np.asarray(X), None if y is None else np.asarray(y))
        given = recipe["rows"] == "given" and example.X is not None
        d = recipe["columns"]
        if given or d is None:
            d = np.shape(example.X)[1] if example.X is not None else 2
        users = recipe.get("users", "absent")
        n = max(1, min(n, recipe["cells"] // (d * _ROWS_EACH[users])))
        sizes = [1 + (k % 5) * (k % 2) if users == "unequal" else _ROWS_EACH[users] for k in range(n)]
        n = sum(sizes)
        pick = np.resize(np.arange(len(example.X)), n) if example.X is not None else np.zeros(0, dtype=int)
        if given:
            X = np.asarray(example.X)[pick]
        else:
            X = self._rows(recipe["rows"], n, d, recipe["size"], settings.get("bounds"))
        y = self._targets(recipe, settings, n, example.y[pick] if example.y is not None and given else None)
        metadata = {} if users == "absent" else {"user_ids": np.repeat(np.arange(len(sizes)), sizes)}
        if place.has_private and place.claim.unit == "private row":
            metadata["private"] = np.ones(n, bool) if y is None else y == np.unique(y)[-1]
        return CheckData(X, y, metadata)

    def _rows(self, kind: str, n: int, d: int, size: float, bounds: Any) -> Any:
        rng, box = self.rng, box_of(bounds, d)
        if box is not None and self._chance(0.7):
            share: Any = {"zero": 0.0, "constant": rng.random(d), "extremes": 1.0}.get(kind, rng.random((n, d)))
            return box[0] + (box[1] - box[0]) * np.broadcast_to(share, (n, d))
        if kind == "extremes":
            return rng.choice(EXTREMES, size=(n, d))
        first = np.arange(d) == 0
        shape = {
            "zero": lambda: np.zeros(d),
            "constant": lambda: np.ones(d),
            "one axis": lambda: first.astype(float),
            "one entry larger": lambda: np.where(first, 1.5, 1.0),
            "uniform": lambda: rng.random((n, d)),
            "normal": lambda: rng.normal(size=(n, d)),
            "few different": lambda: rng.normal(size=(2, d))[rng.integers(2, size=n)],
            "collinear": lambda: rng.normal(size=(n, 1)) * np.ones(d),
        }[kind]()
        return np.clip(size * np.broadcast_to(shape, (n, d)), -1.7e308, 1.7e308)

    def _targets(self, recipe: dict[str, Any], settings: dict[str, Any], n: int, given: Any) -> Any:
        if not self.place.has_target:
            return None
        kind = recipe["target"]
        if kind == "given" and given is not None:
            return given
        if self.place.labels is not None:
            classes = np.asarray(self.place.labels)
            which = {"low": np.zeros(n, int), "high": np.full(n, len(classes) - 1)}
            return classes[which.get(kind, np.arange(n) % len(classes))]
        low, high = _label_box(settings) or (-recipe["target size"], recipe["target size"])
        shape = (n, recipe["outputs"]) if recipe["outputs"] else (n,)
        share: Any = _TARGETS.get(kind)
        if kind == "alternating":
            share = (np.arange(n) % 2.0).reshape(-1, *[1] * (len(shape) - 1))
        share = np.broadcast_to(self.rng.random(shape) if share is None else share, shape)
        return np.clip(low * (1.0 - share) + high * share, low, high)

    def _within(self, data: CheckData, settings: dict[str, Any]) -> CheckData:
        """Clip a changed target to its bounds, which are public."""
        box = _label_box(settings)
        y = data.y
        if box is not None and y is not None and y.dtype.kind == "f" and self.place.labels is None:
            y = np.clip(y, *box)
        return replace(data, y=y)


def _label_box(settings: dict[str, Any]) -> tuple[float, float] | None:
    bounds = settings.get("label_bounds")
    return None if bounds is None or isinstance(bounds, str) else (float(bounds[0]), float(bounds[1]))
