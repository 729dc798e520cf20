"""Progress of a fit for callbacks, in public numbers: a task's name, its number of steps, that one more is done.

Numeric modules say ``with steps("penalties", n) as step:`` and call ``step()``; they do not know who listens.
Nothing else can pass: no rows, no statistic, no model. The caller is responsible for the two numbers being public. A
reported step must not be one whose number hides something, such as the evaluations of a private selection
(`skprivate.privacy.select_repeatedly`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any, TypeVar

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
