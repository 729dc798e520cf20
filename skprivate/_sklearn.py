"""The only importer of scikit-learn privates, so that one file breaks when they move.

Numeric modules say ``with steps("penalties", n) as step:`` and call ``step()``; they do not know who listens.
Nothing else can pass: no rows, no statistic, no model. The caller is responsible for the two numbers being public. A
reported step must not be one whose number hides something, such as the evaluations of a private selection
(`skprivate.privacy.select_repeatedly`).
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections import UserList
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from joblib.hashing import Hasher
from sklearn import get_config
from sklearn.base import _fit_context as _sklearn_fit_context
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    StrOptions,
    validate_params,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, _num_samples
from sklearn.utils.validation import _check_y as _sklearn_check_y

from skprivate.privacy import in_one_order

#: Most steps that are reported of one task; of more, several are reported as one.
MOST_STEPS = 1000


#: Listener to a task: ``begin(name, n_steps)`` begins a task within it in place of one of its steps, ``step()`` counts
#: one more step, ``end()`` ends it, perhaps after fewer steps (`skprivate._sklearn._Task`).
Task = Any
Step = Callable[..., None]
T = TypeVar("T")


class _Steps:
    """Reporter of each step of a task, or of a share where there are very many; from any thread."""

    def __init__(self, task: Task, n_steps: int) -> None:
        self.task, self.n_steps = task, n_steps
        self.most = min(n_steps, MOST_STEPS)
        self.reported = self.done = 0
        self.detailed = False  # the step under way is reported as a task of its own
        self.lock = RLock()

    def __call__(self, count: int = 1) -> None:
        with self.lock:
            self.done = min(self.done + count, self.n_steps)
            while self.reported < self.done * self.most // self.n_steps:
                self.reported += 1
                if not self.detailed:
                    self.task.step()
                self.detailed = False

    def detail(self, name: str, n_steps: int) -> _Steps | None:
        """Begin the step under way as a task, if it can be reported."""
        with self.lock:
            if self.detailed or self.reported == self.most:
                return None
            self.detailed = True
            return _Steps(self.task.begin(name, min(n_steps, MOST_STEPS)), n_steps)


#: The task under way, innermost last.
_TASKS: ContextVar[list[_Steps] | None] = ContextVar("skprivate_tasks", default=None)


def _no_progress(count: int = 1) -> None:
    """Ignore a step, because nobody listens."""


@contextmanager
def listening(task: Task | None, n_steps: int = 1) -> Iterator[None]:
    """Report up to ``n_steps`` tasks that run inside, in this thread, to ``task``; None: nobody listens.

    A fit within a fit has listeners of its own or none.
    """
    token = _TASKS.set(None if task is None else [_Steps(task, n_steps)])
    try:
        yield
    finally:
        _TASKS.reset(token)


@contextmanager
def steps(task: str, n_steps: int) -> Iterator[Step]:
    """Report the steps of a task; within another task, as its next step in detail.

    Yields a function to call after each step, or with the number of steps done. ``n_steps`` is the most, and public.
    """
    tasks = _TASKS.get()
    begun = tasks[-1].detail(task, n_steps) if tasks and n_steps > 0 else None
    if tasks is None or begun is None:
        yield _no_progress
        return
    tasks.append(begun)
    try:
        yield begun
        begun.task.end()
    finally:
        tasks.pop()
    if len(tasks) == 1:
        tasks[0]()


def begin_within(task: str, n_steps: int) -> _Steps | None:
    """Begin a task in place of the next step of the innermost one, for callers that cannot hold `steps` open.

    The ``task`` of the result has to be ended. None if no task of a fit is under way, or its next step cannot be
    reported.
    """
    tasks = _TASKS.get()
    return tasks[-1].detail(task, n_steps) if tasks and len(tasks) > 1 else None


def gather(task: str, n_steps: int, results: Iterable[T]) -> list[T]:
    """List results that come one by one, each a step."""
    gathered = []
    with steps(task, n_steps) as step:
        for result in results:
            gathered.append(result)
            step()
    return gathered


try:
    from sklearn.utils._repr_html.estimator import _VisualBlock
except ModuleNotFoundError:  # before scikit-learn 1.7
    from sklearn.utils._estimator_html_repr import _VisualBlock


try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:
        """Empty mixin where scikit-learn has none: nobody can listen."""


_Method = TypeVar("_Method", bound=Callable[..., Any])
#: scikit-learn's advice on missing values would have private rows imputed without noise, or left to trees without a
#: guarantee.
_MISSING = (
    "does not accept missing values. scikit-learn's imputers would look at private rows without a guarantee: leave "
    "incomplete rows out by a public rule, fill in a public constant (SimpleImputer(strategy='constant', "
    "keep_empty_features=True)), or impute within the budget (skprivate.preprocessing.PrivateImputer)."
)
#: Where messages of input validation quote the input or advise badly, and what they say instead.
_REWRITES = (
    (re.compile(r" instead:\narray=.*?\.\n", re.DOTALL), " instead.\n"),
    (
        re.compile(
            r"does not accept missing values encoded as NaN natively\..*#estimators-that-handle-nan-values",
            re.DOTALL,
        ),
        _MISSING,
    ),
    (re.compile(r"Complex data not supported\n.*", re.DOTALL), "Complex data not supported."),
    (re.compile(r"Found unknown categories \[.*?\] in", re.DOTALL), "Found unknown categories in"),
    (re.compile(r"could not convert string to float: .*", re.DOTALL), "could not convert a string to float."),
)


def without_entries(message):
    """Rewrite a message of input validation so that it quotes no entry and advises nothing that leaks."""
    for pattern, replacement in _REWRITES:
        message = pattern.sub(replacement, message)
    return message


@contextmanager
def quoting_no_entries():
    """Rewrite scikit-learn's messages about malformed data; also a decorator."""
    try:
        yield
    except ValueError as error:
        message = without_entries(str(error))
        if message == str(error):
            raise
        raise ValueError(message) from None


def called_from(module):
    """Tell if a function of a module called; that of "sklearn.pipeline" fits parts of column transformers, too."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != module:
        frame = frame.f_back
    return frame is not None


def is_key_of_cache(frame):
    """Tell if joblib's cache asks, in this frame of its pickler, for the key of a call; others may compare hashes."""
    return isinstance(frame.f_locals.get("self"), Hasher) and called_from("joblib.memory")


def inner_estimator(model):
    """Return the estimator that a composite fits clones of; in scikit-learn 1.6 chains call it ``base_estimator``."""
    return model.estimator if hasattr(model, "estimator") else model.base_estimator


def as_listed(columns):
    """Unwrap columns of `ColumnTransformer.transformers_`; scikit-learn 1.6 has a list that warns for the remainder."""
    return columns.data if isinstance(columns, UserList) else columns


#: Without NumPy's warnings: sums of labels, by which scikit-learn looks for NaN, overflow by somebody's label.
_check_y = np.errstate(all="ignore")(_sklearn_check_y)


def check_class_labels(y):
    """Check classification targets without scikit-learn's warning, which tells how many labels differ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_classification_targets(y)


class _Task:
    """A task of a fit in scikit-learn's tree of tasks. Callbacks get names and numbers, never X, y or a model."""

    def __init__(self, estimator, context):
        self._estimator = estimator
        self._context = context.call_on_fit_task_begin(estimator=estimator)

    def begin(self, name, n_steps):
        return _Task(self._estimator, self._context.subcontext(task_name=name, max_subtasks=n_steps))

    def step(self):
        self.begin("step", 0).end()

    def end(self):
        # The answer, whether to stop, is not heeded: a plan is fixed before it is paid for.
        self._context.call_on_fit_task_end(estimator=self._estimator)


@contextmanager
def _telling_callbacks(estimator):
    """Report a fit and its tasks to an estimator's callbacks; must run inside scikit-learn's own fit context."""
    if not (getattr(estimator, "_skl_callbacks", None) and hasattr(estimator, "_init_callback_context")):
        with listening(None):
            yield
        return
    n_tasks = getattr(estimator, "_most_fit_tasks", 1)
    task = _Task(estimator, estimator._init_callback_context(max_subtasks=n_tasks))
    with listening(task, n_tasks):
        yield
    task.end()


def _refuse_other_arrays(estimator, values):
    """Refuse arrays of other libraries, which scikit-learn hands through with dispatch on, to fail in NumPy."""
    if get_config()["array_api_dispatch"]:
        for value in values:
            if hasattr(value, "__array_namespace__") and not isinstance(value, np.ndarray | np.generic):
                raise TypeError(
                    f"{type(estimator).__name__} computes with NumPy: arrays of {type(value).__module__} are not "
                    "supported with array_api_dispatch=True. Convert them to NumPy, or switch the dispatch off."
                )


def _quote_no_table(estimator, error):
    """Let scikit-learn's error about a parameter name the type only of a table in its place: it may hold rows."""
    name = (
        re.match(r"The '(\w+)' parameter", str(error)) if isinstance(error, InvalidParameterError) else None
    )
    value = getattr(estimator, name[1], None) if name else None
    if hasattr(value, "__len__") and not isinstance(value, str):
        message = re.sub(
            r"Got .* instead\.$", f"Got {type(value).__name__} instead.", str(error), flags=re.DOTALL
        )
        raise InvalidParameterError(message) from None


def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """Wrap `sklearn.base._fit_context` for fits on private data; see `skprivate.base.fit_context`."""

    def decorator(fit_method):
        @functools.wraps(fit_method)
        def reported(estimator, *args, **kwargs):
            with _telling_callbacks(estimator):
                return fit_method(estimator, *args, **kwargs)

        checked = _sklearn_fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)(reported)

        @functools.wraps(fit_method)
        @quoting_no_entries()
        def fit(estimator, *args, **kwargs):
            _refuse_other_arrays(estimator, (*args, *kwargs.values()))
            before = dict(vars(estimator))
            try:
                return checked(estimator, *args, **kwargs)
            except BaseException as error:
                # Never empty on the way: other threads may be predicting, and a second interruption may come.
                vars(estimator).update(before)
                for name in vars(estimator).keys() - before.keys():
                    vars(estimator).pop(name, None)
                _quote_no_table(estimator, error)
                raise

        return in_one_order(fit)

    return decorator
