"""How far a fit is, told in public numbers: the name of a task, how many steps it has, that one more is done.

Numeric modules say ``with steps("penalties", n) as step:`` and call ``step()``; they do not know who listens.
Nothing else can pass: no rows, no statistic, no model. The caller answers for the two numbers being public. A step that
is told must not be one whose number hides something, such as the evaluations of a private selection
(`skprivate.privacy.select_repeatedly`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Protocol, TypeVar

#: Steps that are told of one task at most; of more, one stands for several.
MOST_STEPS = 1000


class Task(Protocol):
    """What a listener makes of a task."""

    def begin(self, name: str, n_steps: int) -> Task:
        """Begin a task within this one, in place of one of its steps."""
        ...

    def step(self) -> None:
        """One more step is done."""
        ...

    def end(self) -> None:
        """The task is done, perhaps in fewer steps."""
        ...


Step = Callable[..., None]
T = TypeVar("T")


class _Steps:
    """Tells each step of a task, or their share where there are very many; from any thread."""

    def __init__(self, task: Task, n_steps: int) -> None:
        self.task, self.n_steps = task, n_steps
        self.most = min(n_steps, MOST_STEPS)
        self.told = self.done = 0
        self.detailed = False  # the step under way is told as a task of its own
        self.lock = RLock()

    def __call__(self, count: int = 1) -> None:
        with self.lock:
            self.done = min(self.done + count, self.n_steps)
            while self.told < self.done * self.most // self.n_steps:
                self.told += 1
                if not self.detailed:
                    self.task.step()
                self.detailed = False

    def detail(self, name: str, n_steps: int) -> _Steps | None:
        """The step under way as a task, if it can be told."""
        with self.lock:
            if self.detailed or self.told == self.most:
                return None
            self.detailed = True
            return _Steps(self.task.begin(name, min(n_steps, MOST_STEPS)), n_steps)


#: The task under way, innermost last.
_TASKS: ContextVar[list[_Steps] | None] = ContextVar("skprivate_tasks", default=None)


def _untold(count: int = 1) -> None:
    """A step that nobody listens to."""


@contextmanager
def listening(task: Task | None, n_steps: int = 1) -> Iterator[None]:
    """Tell ``task`` of up to ``n_steps`` tasks that run inside, in this thread; None: nobody listens.

    A fit within a fit has listeners of its own or none.
    """
    token = _TASKS.set(None if task is None else [_Steps(task, n_steps)])
    try:
        yield
    finally:
        _TASKS.reset(token)


@contextmanager
def steps(task: str, n_steps: int) -> Iterator[Step]:
    """Tell the steps of a task. Within another task it tells that one's next step in detail.

    Parameters
    ----------
    task : str
    n_steps : int
        Most steps; public.

    Yields
    ------
    callable
        To be called after each step, or with how many are done.
    """
    tasks = _TASKS.get()
    begun = tasks[-1].detail(task, n_steps) if tasks and n_steps > 0 else None
    if tasks is None or begun is None:
        yield _untold
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

    Parameters
    ----------
    task : str
    n_steps : int
        Most steps; public.

    Returns
    -------
    callable or None
        To be called after each step; its ``task`` is to be ended. None if no task of a fit is under way, or its next
        step cannot be told.
    """
    tasks = _TASKS.get()
    return tasks[-1].detail(task, n_steps) if tasks and len(tasks) > 1 else None


def gather(task: str, n_steps: int, results: Iterable[T]) -> list[T]:
    """List of results that come one by one, each a step."""
    gathered = []
    with steps(task, n_steps) as step:
        for result in results:
            gathered.append(result)
            step()
    return gathered
