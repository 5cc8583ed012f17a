"""Let threads belong to the turn that they are started in: Python gives a thread an empty context.

Only the turn is carried along; no other context variable of the agent is touched.
"""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any, Callable

from .turns import inherited_turn, reset_turn, set_turn


def carry_into_pool(module: ModuleType) -> None:
    """Let what is submitted to a pool of threads belong to the turn that submits it."""
    submit = module.ThreadPoolExecutor.submit

    @functools.wraps(submit)
    def carrying(self: Any, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        return submit(self, _carried(fn), *args, **options)

    module.ThreadPoolExecutor.submit = carrying


def carry_into_threads() -> None:
    """Let a thread belong to the turn that starts it."""
    start = threading.Thread.start

    @functools.wraps(start)
    def carrying(self: threading.Thread) -> None:
        if inherited_turn() is not None:
            run = _carried(self.run)

            def run_once() -> None:
                try:
                    run()
                finally:
                    self.__dict__.pop("run", None)  # else the thread would hold itself

            self.run = run_once  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = carrying  # type: ignore[method-assign]


def _carried(function: Callable[..., Any]) -> Callable[..., Any]:
    turn = inherited_turn()

    def call(*args: Any, **options: Any) -> Any:
        token = set_turn(turn)
        try:
            return function(*args, **options)
        finally:
            reset_turn(token)

    return call
