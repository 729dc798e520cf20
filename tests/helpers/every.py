"""One test over many values, where a case for each would tell no more."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def every(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Any], Any]:
    """Run a test for one value after the other, in one case; a failure names the value.

    ``@every`` takes what ``@pytest.mark.parametrize`` takes. It suits what is cheap, leaves nothing behind, and runs
    the same code for all values.
    """
    taken = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    several = len(taken) > 1
    cases = [tuple(value) if several else (value,) for value in values]
    assert cases

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(**given: Any) -> None:
            for case in cases:
                try:
                    test(**given, **dict(zip(taken, case, strict=True)))
                except BaseException as error:
                    error.add_note(f"with {', '.join(f'{k} = {v!r}' for k, v in zip(taken, case, strict=True))}")
                    raise

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in taken]
        run.__signature__ = signature.replace(parameters=left)
        return run

    return decorate
