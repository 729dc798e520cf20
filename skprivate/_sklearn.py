"""The only importer of scikit-learn privates, so that one file breaks when they move.

Numeric modules say ``with steps("penalties", n) as step:`` and call ``step()``; they do not know who listens.
Nothing else can pass: no rows, no statistic, no model. The caller is responsible for the two numbers being public. A
reported step must not be one whose number hides something, such as the evaluations of a private selection
(`skprivate.privacy.select_repeatedly`).
"""

from __future__ import annotations

import dis
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
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError, StrOptions, validate_params
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, _num_samples
from sklearn.utils.validation import _check_y as _sklearn_check_y

from skprivate.privacy import WARNED, in_one_order

#: Most steps that are reported of one task; of more, several are reported as one.
MOST_STEPS = 1000


#: Listener to a task: ``begin(name, n_steps)`` begins a task within it in place of one of its steps, ``step()`` counts
#: one more step, ``end()`` ends it, perhaps after fewer steps (`skprivate._sklearn._Task`).
Task = Any
Step = Callable[..., None]
T = TypeVar("T")
#: The task under way, innermost last.
_TASKS: ContextVar[list[_Steps] | None] = ContextVar("skprivate_tasks", default=None)
_Method = TypeVar("_Method", bound=Callable[..., Any])
#: scikit-learn's advice on missing values would have private rows imputed without noise, or left to trees without a
#: guarantee.
_MISSING = (
    "Missing values are not accepted. scikit-learn's imputers would look at private rows without a guarantee: leave "
    "incomplete rows out by a public rule, fill in a public constant (SimpleImputer(strategy='constant', "
    "keep_empty_features=True)), or impute within the budget (skprivate.preprocessing.PrivateImputer)."
)
_RESHAPE = "Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row."
#: What is said instead of other libraries' words about data that hold one of these.
_INSTEAD = {
    "Input y contains NaN": "Input y contains NaN.",
    "contains NaN": f"Input X contains NaN.\n{_MISSING}",
    "Input y contains infinity": "Input y contains infinity or a value too large for dtype('float64').",
    "contains infinity": "Input X contains infinity or a value too large for dtype('float64').",
    "got 1D array": f"Expected 2D array, got 1D array instead.\n{_RESHAPE}",
    "2-dimensional container": f"Expected 2D array, got 1D array instead.\n{_RESHAPE} Of pandas, X.to_frame().",
    "got scalar": f"Expected 2D array, got scalar array instead.\n{_RESHAPE}",
    "shape ()": "y should be a 1d array, got None or a single value. Pass the column: X['name'].",
    "Complex data not supported": "Complex data not supported.",
    "sparse matri": "Sparse data, or sparse data of such indices, are not supported here. Use X.toarray().",
    "unknown categories": "Found unknown categories. Give all of them by what is publicly known.",
    "unseen labels": "y holds labels that are not among the known ones.",
    "could not convert string to float": "could not convert a string to float.",
    "argument must be a string": "An argument must be a string that reads as a number, or a number.",
    "cannot convert i128": "Integers of 128 bits are no numbers of NumPy. Cast them to 64 bits, identifiers to text.",
}
#: Functions of scikit-learn whose words quote data, or advise what has no guarantee, but for these beginnings.
_QUOTING = (
    "check_array", "_ensure_no_complex_data", "_assert_all_finite_element_wise", "_num_samples", "column_or_1d",
    "type_of_target", "unique_labels",
)  # fmt: skip
_PUBLIC = re.compile(r"Found array with|y should be a 1d array, got an array of shape \(\d|Expected sequence|Mix type")
_WORDS_THAT_STAY = (
    "sklearn.base", "sklearn.callback", "sklearn.compose", "sklearn.pipeline", "sklearn.utils._available_if",
    "sklearn.utils._metadata_requests", "sklearn.utils._param_validation", "sklearn.utils._tags",
    "sklearn.utils.metaestimators", "sklearn.utils.multiclass", "sklearn.utils.validation",
)  # fmt: skip
_DATA_ERRORS = ("narwhals.exceptions", "polars.exceptions", "pyarrow.lib")
#: joblib raises errors of other processes as its own.
_LIBRARIES = (
    "decimal", "joblib", "narwhals", "numpy", "pandas", "polars", "pyarrow", "scipy", "skprivate", "sklearn"
)  # fmt: skip
#: Without NumPy's warnings: sums of labels, by which scikit-learn looks for NaN, overflow by somebody's label.
_check_y = np.errstate(all="ignore")(_sklearn_check_y)
#: Modules of scikit-learn that fit others as parts of a whole; columns are transformed by that of pipelines.
COMPOSITES = (
    "sklearn.calibration", "sklearn.compose", "sklearn.ensemble", "sklearn.feature_selection",
    "sklearn.linear_model._ransac", "sklearn.model_selection._classification_threshold", "sklearn.multiclass",
    "sklearn.multioutput", "sklearn.pipeline", "sklearn.semi_supervised",
)  # fmt: skip
#: Modules of scikit-learn that score fits on rows held out, and those of their functions that only predict.
_SEARCHES = frozenset((
    "sklearn.feature_selection._rfe", "sklearn.feature_selection._sequential",
    "sklearn.model_selection._classification_threshold", "sklearn.model_selection._search",
    "sklearn.model_selection._search_successive_halving", "sklearn.model_selection._validation",
))  # fmt: skip
_NO_SCORES, _MARK = ("cross_val_predict", "_fit_and_predict"), "skprivate was asked"
#: Fits under way here, innermost last.
_FITTING: ContextVar[tuple[Any, ...]] = ContextVar("skprivate_fitting", default=())
#: Attributes with the names of those that the last fit set, and with its warnings.
LEARNT, WARNINGS = "_skprivate_learnt", "_skprivate_warnings"


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


def in_public_words(error):
    """Make an error of fixed words in place of another library's about data, which may quote it; None if it stays."""
    about_data = isinstance(error, ArithmeticError | TypeError | ValueError)
    if not (about_data or type(error).__module__ in _DATA_ERRORS):
        return None
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    if not _may_quote(last, str(error)):
        return None
    place = f"{last.tb_frame.f_globals.get('__name__')}.{last.tb_frame.f_code.co_name}"
    unknown = (
        f"X and what goes with it must be data that is understood, got {type(error).__name__} in {place}, whose words "
        "are not shown, as they may quote an entry. Check shapes and types, and if n_jobs=None says more."
    )
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(next((words for held, words in _INSTEAD.items() if held in str(error)), unknown))


def _may_quote(last, text):
    """Tell if the words of an error are about data: not raised by a statement of ours or of those known to be safe."""
    code, module = last.tb_frame.f_code, last.tb_frame.f_globals.get("__name__", "")
    if code.co_code[last.tb_lasti] != dis.opmap["RAISE_VARARGS"]:
        # Compiled code that this frame has called; the interpreter names a function and its arguments.
        return re.match(r"[\w.<>]+\(\) (got|missing|takes) ", text) is None
    if module.partition(".")[0] not in _LIBRARIES:
        return False  # of a class or function of the caller's
    if code.co_name in _QUOTING:
        return _PUBLIC.match(text) is None
    return not module.startswith(("skprivate.", *_WORDS_THAT_STAY))


@contextmanager
def quoting_no_entries():
    """Replace other libraries' words about data, which may quote it."""
    try:
        yield
    except Exception as error:
        if (own := in_public_words(error)) is None:
            raise
        raise own from None


def called_from(*modules):
    """Tell if a function of one of some modules called, or of what is in them."""
    frame = sys._getframe()
    while frame is not None and not frame.f_globals.get("__name__", "").startswith(modules):
        frame = frame.f_back
    return frame is not None


def search_under_way():
    """Find the frame of the outermost search of scikit-learn that called, unless this package began it."""
    found, frame = None, sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in _SEARCHES and frame.f_code.co_name not in _NO_SCORES:
            # Functions, and classes with folds: not RFE, not FixedThresholdClassifier.
            outer = hasattr(frame.f_locals.get("self", frame.f_locals), "cv") or "self" not in frame.f_locals
            found = frame if outer else found
        elif module.startswith("skprivate."):
            found = None
        frame = frame.f_back
    return found


def name_of_new_search():
    """Name the search of scikit-learn under way at its first call of this in its own thread and process, else ""."""
    frame = search_under_way()
    # Workers begin in functions that nobody else calls. Names that a frame does not know stay in its ``f_locals``.
    if frame is None or frame.f_code.co_name.startswith(("_", "<")) or _MARK in frame.f_locals:
        return ""
    frame.f_locals[_MARK] = True
    return type(frame.f_locals["self"]).__name__ if "self" in frame.f_locals else frame.f_code.co_name


def is_key_of_cache(frame):
    """Tell if joblib's cache asks, in this frame of its pickler, for the key of a call; others may compare hashes."""
    return isinstance(frame.f_locals.get("self"), Hasher) and called_from("joblib.memory")


def inner_estimator(model):
    """Return the estimator that a composite fits clones of; in scikit-learn 1.6 chains call it ``base_estimator``."""
    return model.estimator if hasattr(model, "estimator") else model.base_estimator


def as_listed(columns):
    """Unwrap columns of `ColumnTransformer.transformers_`; scikit-learn 1.6 has a list that warns for the remainder."""
    return columns.data if isinstance(columns, UserList) else columns


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
    name = re.match(r"The '(\w+)' parameter", str(error))
    value = getattr(estimator, name[1], None) if name else None
    if hasattr(value, "__len__") and not isinstance(value, str):
        message = re.sub(r"Got .* instead\.$", f"Got {type(value).__name__} instead.", str(error), flags=re.DOTALL)
        raise InvalidParameterError(message) from None


def _fit_anew(method, estimator, args, kwargs):
    """Learn on a blank, which the estimator becomes at once: nothing of an earlier fit stays, nor of one that fails.

    The blank has all attributes but those that the last fit set. Other threads predict from the earlier fit meanwhile.
    """
    if any(one is estimator for one in _FITTING.get()):
        return method(estimator, *args, **kwargs)  # a part of the fit
    parameters = estimator.get_params(deep=False).keys() & vars(estimator).keys()
    learns_more, known = method.__name__ == "partial_fit", vars(estimator).get(LEARNT, ())
    given = {name: value for name, value in vars(estimator).items() if learns_more or name not in known}
    blank = object.__new__(type(estimator))
    vars(blank).update(given)
    for name in parameters:  # numbers of Python, so that arithmetic on a budget is that of float64
        if isinstance(given[name], np.number):
            vars(blank)[name] = given[name].item()
    token, warned, heard = _FITTING.set((*_FITTING.get(), blank)), WARNED.get(), [*given.get(WARNINGS, ())]
    WARNED.set(heard)
    try:
        result = method(blank, *args, **kwargs)
    finally:
        _FITTING.reset(token)
        WARNED.set(warned)
    state = vars(blank)  # of both: a method that was stored is bound to the blank
    state[WARNINGS] = tuple(dict.fromkeys(heard))
    state |= {name: vars(estimator)[name] for name in parameters}
    learnt = {name for name, value in state.items() if name not in given or value is not given[name]}
    state[LEARNT] = tuple(sorted(learnt.union(known if learns_more else ()) - parameters - {LEARNT}))
    estimator.__dict__ = state
    return estimator if result is blank else result


def _fit_privately(method, estimator, args, kwargs):
    """Run a decorated method; apart from its wrapper, which is pickled by value with a class of somebody's script."""
    with quoting_no_entries():
        _refuse_other_arrays(estimator, (*args, *kwargs.values()))
        try:
            return _fit_anew(method, estimator, args, kwargs)
        except InvalidParameterError as error:
            _quote_no_table(estimator, error)
            raise


def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """Wrap `sklearn.base._fit_context` for fits on private data; see `skprivate.base.fit_context`."""

    def decorator(fit_method):
        @functools.wraps(fit_method)
        def reported(estimator, *args, **kwargs):
            with _telling_callbacks(estimator):
                return fit_method(estimator, *args, **kwargs)

        checked = _sklearn_fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)(reported)

        @functools.wraps(fit_method)
        def fit(estimator, *args, **kwargs):
            return _fit_privately(checked, estimator, args, kwargs)

        return in_one_order(fit)

    return decorator
