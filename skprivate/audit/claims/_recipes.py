"""Recipes of neighbouring inputs: worst cases for arithmetic, counts and identifiers, freely combined.

A recipe names, for each gene, one of its values; it is drawn, changed in a gene or two, and built into two inputs that
differ in one unit. Nothing here depends on an estimator: what an estimator does not accept is learnt from refusals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skprivate.audit.claims._neighbours import Pair, Surroundings, box_of, random_size
from skprivate.audit.claims._runs import Inputs
from skprivate.privacy import public_generator

#: Sizes whose squares underflow or overflow.
SQUARES = (1.5e-162, 1.34e154)
#: Values to fill rows with.
EXTREMES = (0.0, 1.0, -1.0, 0.5, 5e-324, 1e-310, 1.5e-162, 1e-9, 1e9, 2.0**53, 1.6e154, 1e300, -1.7e308)
COUNTS = (1, 2, 3, 5, 8, 30, 31, 32, 33, 100, 103, 400, 400, 1000)
#: Numbers of users where everybody's contribution moves, each by no more than one may.
_CROWDS = (400, 1000, 3000, 6000)
#: Numbers in X: most pairs are small, so that many are looked at.
_CELLS = (300, 300, 3_000, 3_000, 30_000)
_MANY_CELLS = 120_000


_KINDS = ("zero", "constant", "one axis", "uniform", "normal", "few different", "collinear", "extremes")
_VICTIMS: tuple[str, ...] = ("like others", "zero", "opposite", "another size", "one axis", "last bit")
_VICTIMS += ("random signs", "normal", "one entry larger")
#: Genes that are sizes: mostly one of them is extreme at a time.
_SIZES = ("size", "victim size", "target size")
_ENDS = ("low", "high", "middle", "like others", "random", "another size")


def gene_values(place: Surroundings) -> dict[str, Any]:
    """List the values of every gene that applies: a tuple to choose from, or a function of the randomness."""
    given = place.example.X is not None or place.make_data is not None
    genes: dict[str, Any] = {"n": COUNTS, "seed": lambda rng: int(rng.integers(2**31))}
    genes["rows"] = _KINDS + (("given",) * 4 if given else ())
    genes["d"] = ("given",) * 5 + (1, 2, 7, 30, 1000) if given else (1, 1, 2, 3, 7, 20, 100, 1000, 4000)
    genes["size"] = genes["victim size"] = random_size
    genes["cells"] = _CELLS
    genes["place"] = ("first", "last", "in the middle")
    unit = place.claim.unit
    if unit != "label":
        genes["victim"] = _VICTIMS
        genes["other victim"] = (*_VICTIMS, "reversed")
    if place.has_target:
        genes["target"] = ("low", "high", "middle", "uniform", "alternating") + (("given",) if given else ())
        genes["target size"] = random_size
        if unit != "private row":
            genes["victim target"] = genes["other target"] = _ENDS
        if place.labels is None:
            genes["outputs"] = (0, 0, 0, 0, 2, 5, 30)
    if place.has_users and unit == "user":
        genes["users"] = ("absent", "one row each", "two rows each", "five rows each", "unequal")
        genes["victim rows"] = ((1, 1), (1, 2), (1, 3), (2, 1), (5, 1), (1, 50), (2, 2))
        genes["rows at"] = (None, None, None, 1, 2, 3, 4)
        genes["ids"] = ("integers",) * 3 + ("beyond 2**63", "strings", "mixed")
    return genes


class Recipes:
    """Draws and changes recipes; values that are refused come up less often."""

    def __init__(self, place: Surroundings, settings: list[dict[str, Any]], rng: Any) -> None:
        self.place, self.rng = place, rng
        self.settings = settings
        self.genes = gene_values(place)
        self.genes["settings"] = tuple(range(len(settings)))
        self.tried: dict[tuple[str, Any], list[int]] = {}

    def draw(self) -> dict[str, Any]:
        """Draw a recipe; in most only one size is extreme, so that few genes meet at a time."""
        recipe = {name: self._value(name) for name in self.genes}
        if self.rng.random() < 0.5:
            recipe["settings"] = 0
        if self.rng.random() < 0.7:
            extreme = self.rng.choice(_SIZES)
            plain = 1.0 if self.rng.random() < 0.5 else float(self.rng.uniform(0.5, 2.0))
            recipe.update({name: plain for name in _SIZES if name in recipe and name != extreme})
        if "users" in recipe and self.rng.random() < 0.5:
            recipe["ids"], recipe["rows at"] = "integers", None
        scene = self.rng.random()
        if "users" in recipe and scene < 0.3:
            self._crowd(recipe)
        elif "victim" in recipe and scene > 0.85:
            self._wide(recipe)
        return recipe

    def _crowd(self, recipe: dict[str, Any]) -> None:
        """Set many equal users, and one with a row more or less, which may change how the others are computed."""
        few: dict[str, tuple[Any, ...]] = {"n": _CROWDS, "users": ("one row each", "two rows each")}
        few |= {"victim": ("zero", "like others"), "rows": ("constant",), "victim rows": ((1, 2), (2, 1))}
        few |= {"target": ("high", "alternating"), "d": (1, 1, 2), "victim target": ("middle", "like others")}
        recipe.update({k: v[int(self.rng.integers(len(v)))] for k, v in few.items() if k in recipe})
        recipe |= {"cells": 30_000, "ids": "integers", "rows at": None, "other victim": recipe["victim"]}
        if self.rng.random() < 0.5:
            recipe["size"] = float(self.rng.choice(SQUARES)) * 2.0 ** self.rng.uniform(-1, 1)
        if "other target" in recipe:
            recipe["other target"] = recipe["victim target"]

    def _wide(self, recipe: dict[str, Any]) -> None:
        """Set one row of many entries, all close to where squares end, against its opposite or nothing."""
        recipe |= {"cells": _MANY_CELLS, "n": 30, "victim": "one entry larger"}
        factor = 2.0 ** self.rng.uniform(-1, 1) if self.rng.random() < 0.5 else 1.0
        recipe["victim size"] = float(self.rng.choice(SQUARES)) * factor
        recipe |= {name: 1.0 for name in ("size", "target size") if name in recipe}
        recipe["other victim"] = str(self.rng.choice(["reversed", "zero", "one entry larger"]))
        recipe["rows"] = str(self.rng.choice(["zero", "constant"]))
        if recipe["d"] != "given":
            recipe["d"] = int(self.rng.choice([1000, 4000]))
        if "victim target" in recipe:
            recipe |= {"victim target": "high", "other target": "high", "outputs": 0}
            recipe["target"] = str(self.rng.choice(["low", "middle"]))

    def change(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """Change one to three genes of a recipe; sizes also by a step."""
        changed = dict(recipe)
        for _ in range(int(self.rng.integers(1, 4))):
            name = str(self.rng.choice(list(self.genes)))
            old = changed[name]
            if isinstance(old, float) and old != 0.0 and self.rng.random() < 0.5:
                step = old * 10.0 ** self.rng.normal(scale=self.rng.choice([0.1, 1.0, 10.0]))
                changed[name] = float(step) if math.isfinite(step) else old
            else:
                changed[name] = self._value(name)
        return changed

    def learn(self, recipe: dict[str, Any], valid: bool) -> None:
        """Count a recipe that was accepted or refused."""
        for name, values in self.genes.items():
            if isinstance(values, tuple):
                counts = self.tried.setdefault((name, recipe[name]), [0, 0])
                counts[0] += valid
                counts[1] += 1

    def _value(self, name: str) -> Any:
        values = self.genes[name]
        if not isinstance(values, tuple):
            return values(self.rng)
        known = [self.tried.get((name, value), (0, 0)) for value in values]
        weights = np.array([((good + 1.0) / (all_ + 1.0)) ** 2 for good, all_ in known])
        return values[int(self.rng.choice(len(values), p=weights / weights.sum()))]

    def build(self, recipe: dict[str, Any]) -> Pair:
        """Make the two inputs of a recipe."""
        with np.errstate(all="ignore"):
            rng = public_generator(recipe["seed"])
            return _build(recipe, self.place, self.settings[recipe["settings"]], rng)


# --- from genes to data --------------------------------------------------------------------------------------------


def _build(recipe: dict[str, Any], place: Surroundings, settings: dict[str, Any], rng: Any) -> Pair:
    example = place.example
    n = recipe["n"]
    if recipe["rows"] == "given" and place.make_data is not None:
        X, y, params = (*place.make_data(rng, max(n, 4)), None, {})[:3]
        example = Inputs(np.asarray(X), None if y is None else np.asarray(y), dict(params or {}))
    given = recipe["rows"] == "given" and example.X is not None
    d = np.shape(example.X)[1] if given or recipe["d"] == "given" else recipe["d"]
    n = max(1, min(n, recipe["cells"] // max(1, d)))
    sizes = _rows_of_users(recipe, n, d)  # of the others
    pick = np.resize(np.arange(len(example.X)), sum(sizes)) if example.X is not None else None
    if given:
        others = np.asarray(example.X)[pick]
    else:
        others = _rows(recipe["rows"], sum(sizes), d, recipe["size"], settings.get("bounds"), rng)
    target = _targets(recipe, place, settings, len(others), pick, example, rng)
    before, after = recipe.get("victim rows", (1, 1))
    if place.claim.adjacency == "add-remove" and place.claim.unit != "label":
        before = 0
    own = [
        _victim(recipe.get(gene, "like others"), others, d, recipe["victim size"], rng)
        for gene in ("victim", "other victim")
    ]
    if place.claim.unit == "label":
        own[1] = own[0]
    elif recipe.get("other victim") == "reversed" and others.dtype.kind in "fiu":
        own[1] = -own[0]
    own_y: list[Any] = [None, None]
    if target is not None:
        own_y = [
            _one_target(recipe.get(gene, "like others"), target, recipe, place, settings, rng)
            for gene in ("victim target", "other target")
        ]
        if place.claim.unit == "private row":
            own_y = [np.unique(target)[-1]] * 2
    made = []
    for row, label, times in ((own[0], own_y[0], before), (own[1], own_y[1], after)):
        made.append(_put(others, target, sizes, row, label, times, recipe, place))
    return Pair(made[0], made[1], settings, None, {k: v for k, v in recipe.items() if k != "settings"})


def _rows_of_users(recipe: dict[str, Any], n: int, d: int) -> list[int]:
    each = {"two rows each": 2, "five rows each": 5}.get(recipe.get("users", ""), 1)
    n = max(1, min(n, recipe["cells"] // (each * d)))
    sizes = [each] * n
    if recipe.get("users") == "unequal":
        sizes = [1 + (k % 5) * (k % 2) for k in range(n)]
    if recipe.get("rows at") and recipe.get("users") != "absent":  # of the others: just below m·users·d
        missing = recipe["rows at"] * (n + 1) * d - 2 - sum(sizes)
        if 0 < missing * d < 2 * recipe["cells"]:
            sizes[0] += missing
    return sizes


def _rows(kind: str, n: int, d: int, size: float, bounds: Any, rng: Any) -> Any:
    box = box_of(bounds, d)
    if box is not None and rng.random() < 0.7:
        low, high = box
        share = {"zero": 0.0, "constant": rng.random(d), "extremes": 1.0}.get(kind, rng.random((n, d)))
        return low + (high - low) * np.broadcast_to(share, (n, d))
    if kind == "zero":
        return np.zeros((n, d))
    if kind == "constant":
        return np.full((n, d), size)
    if kind == "one axis":
        return np.where(np.arange(d) == 0, size, 0.0) * np.ones((n, 1))
    if kind == "uniform":
        return size * rng.random((n, d))
    if kind == "few different":
        return size * rng.normal(size=(2, d))[rng.integers(2, size=n)]
    if kind == "collinear":
        return size * rng.normal(size=(n, 1)) * np.ones(d)
    if kind == "extremes":
        return rng.choice(EXTREMES, size=(n, d)) * rng.choice([-1.0, 1.0], size=(n, d))
    return np.clip(size * rng.normal(size=(n, d)), -1.7e308, 1.7e308)


def _victim(kind: str, others: Any, d: int, size: float, rng: Any) -> Any:
    like = others[int(rng.integers(len(others)))]
    if others.dtype.kind not in "fiu":
        return like
    like = like.astype(np.float64)
    return {
        "like others": like,
        "zero": np.zeros(d),
        "opposite": -like,
        "another size": np.full(d, size),
        "one axis": np.where(np.arange(d) == 0, size, 0.0),
        "last bit": np.nextafter(like, np.inf),
        "normal": np.clip(size * rng.normal(size=d), -1.7e308, 1.7e308),
        "random signs": size * rng.choice([-1.0, 1.0], size=d),
        "one entry larger": np.where(np.arange(d) == 0, min(1.5 * size, 1.7e308), size),
    }.get(kind, like)


def _label_box(recipe: dict[str, Any], settings: dict[str, Any]) -> tuple[float, float]:
    bounds = settings.get("label_bounds")
    if bounds is None or isinstance(bounds, str):
        return -recipe["target size"], recipe["target size"]
    return float(bounds[0]), float(bounds[1])


def _targets(
    recipe: dict[str, Any],
    place: Surroundings,
    settings: dict[str, Any],
    n: int,
    pick: Any,
    example: Inputs,
    rng: Any,
) -> Any:
    if not place.has_target:
        return None
    kind = recipe["target"]
    if kind == "given" and example.y is not None and pick is not None:
        return np.asarray(example.y)[pick]
    if place.labels is not None:
        classes = np.asarray(place.labels)
        which = {"low": np.zeros(n, int), "high": np.full(n, len(classes) - 1)}
        return classes[which.get(kind, np.arange(n) % len(classes))]
    low, high = _label_box(recipe, settings)
    shape = (n,) if recipe["outputs"] == 0 else (n, recipe["outputs"])
    if kind in ("uniform", "given"):
        share = rng.random(shape)
    elif kind == "alternating":
        share = np.broadcast_to((np.arange(n) % 2.0).reshape(-1, *[1] * (len(shape) - 1)), shape)
    else:
        share = np.full(shape, {"low": 0.0, "high": 1.0, "middle": 0.5}[kind])
    return np.clip(low * (1.0 - share) + high * share, low, high)


def _one_target(
    kind: str, target: Any, recipe: dict[str, Any], place: Surroundings, settings: dict[str, Any], rng: Any
) -> Any:
    like = target[int(rng.integers(len(target)))]
    if kind == "like others":
        return like
    if place.labels is not None:
        classes = np.asarray(place.labels)
        return classes[{"low": 0, "high": -1}.get(kind, int(rng.integers(len(classes))))]
    low, high = _label_box(recipe, settings)
    if kind == "another size" and settings.get("label_bounds") is None:
        return np.full_like(like, recipe["victim size"])
    share = {"low": 0.0, "high": 1.0, "middle": 0.5}.get(kind, float(rng.random()))
    return np.full_like(like, np.clip(low * (1.0 - share) + high * share, low, high))


def _put(
    others: Any,
    target: Any,
    sizes: list[int],
    row: Any,
    label: Any,
    times: int,
    recipe: dict[str, Any],
    place: Surroundings,
) -> Inputs:
    """Insert the victim's rows among the others'."""
    n = len(others)
    at = {"first": 0, "last": n}.get(recipe["place"], n // 2)
    X = np.insert(others, at, np.broadcast_to(row, (times, others.shape[1])), axis=0) if times else others
    y = target
    if target is not None and times:
        y = np.insert(target, at, np.broadcast_to(label, (times, *np.shape(label))), axis=0)
    params: dict[str, Any] = {}
    if recipe.get("users", "absent") != "absent":
        codes = np.insert(np.repeat(np.arange(1, len(sizes) + 1), sizes), at, [0] * times)
        params["user_ids"] = _names(codes, recipe["ids"])
    elif times > 1:
        X, y = (
            None if part is None else np.delete(part, range(at + 1, at + times), axis=0) for part in (X, y)
        )
    if place.has_private and place.claim.unit == "private row":
        label_of_victim = np.unique(target)[-1] if target is not None else None
        params["private"] = np.ones(len(X), bool) if y is None else y == label_of_victim
    return Inputs(X, y, params)


def _names(codes: Any, kind: str) -> Any:
    """Name users so that a conversion to one type would merge some of them, or not."""
    if kind == "strings":
        return np.array([f"user {code}" for code in codes])
    if kind == "beyond 2**63":
        return [-1 if code == 0 else 2**63 + int(code) for code in codes]
    if kind == "mixed":
        return ["1" if code == 0 else int(code) for code in codes]
    return codes
