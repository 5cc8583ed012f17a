"""Hooks that run code after an import, and that assign new threads to the turn of the code that starts them.

No hook may raise an exception in the agent's code. The hooks for threads pass on the turn, and no other
context variable.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Optional, TypeVar

from .turns import get_inherited_turn, reset_turn, set_turn

_Result = TypeVar("_Result")
_reported: set[str] = set()


def suppress_errors(function: Callable[..., _Result]) -> Callable[..., Any]:
    """Return a wrapper of `function` that returns None if `function` raises an exception.

    The exception is written to stderr, but only once for each function, exception type and message.
    """

    @functools.wraps(function)
    def call_safely(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:  # noqa: BLE001  foreign objects may raise anything
            what = f"{function.__name__}: {type(error).__name__}: {error}"
            if what not in _reported:
                _reported.add(what)
                sys.stderr.write(f"evalgate: something that the agent did could not be captured ({what})\n")
            return None

    return call_safely


_Action = Callable[[ModuleType], None]


def run_after_import(name: str, action: _Action) -> None:
    """Call `action` with the module `name` as soon as the module is imported, or now if it is loaded.

    An exception of `action` is only written to stderr.
    """
    action = suppress_errors(action)
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    sys.meta_path.insert(0, _PostImportFinder(name, action))


class _PostImportFinder:
    """Meta path finder that calls `action` as soon as the import of the module `name` has executed its code.

    It does not search the module itself, but asks the other finders.
    """

    def __init__(self, name: str, action: _Action) -> None:
        self._name = name
        self._action = action
        self._searching = False

    def find_spec(
        self, name: str, path: object = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Return the spec of the watched module, with a loader patched to call `action` after the import.

        Return None for any other module, and if no other finder finds the watched module.
        """
        del path, target
        if name != self._name or self._searching:
            return None
        self._searching = True  # `importlib.util.find_spec` asks all finders, and this one too
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            self._patch_loader(spec.loader)
        return spec

    def _patch_loader(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == self._name:  # a loader of zip files is shared by modules
                loader.__dict__.pop("exec_module", None)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self._action(module)

        try:
            # On this loader, because its class loads all other modules too.
            loader.exec_module = exec_module
        except AttributeError:
            return  # a loader of C modules; no module that is patched is in C


def propagate_into_pool(module: ModuleType) -> None:
    """Patch `ThreadPoolExecutor` of `module` so that a job belongs to the turn that submits the job."""
    submit = module.ThreadPoolExecutor.submit

    @functools.wraps(submit)
    def submit_in_turn(self: Any, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        return submit(self, _bind_turn(fn), *args, **options)

    module.ThreadPoolExecutor.submit = submit_in_turn


def propagate_into_threads() -> None:
    """Patch `threading.Thread` so that a thread belongs to the turn that starts it."""
    start = threading.Thread.start

    @functools.wraps(start)
    def start_in_turn(self: threading.Thread) -> None:
        if get_inherited_turn() is not None:
            run = _bind_turn(self.run)

            def run_once() -> None:
                try:
                    run()
                finally:
                    self.__dict__.pop("run", None)  # breaks the reference cycle of thread and closure

            # On the thread and not on the class, because subclasses override `run`.
            self.run = run_once  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_in_turn  # type: ignore[method-assign]


def _bind_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    turn = get_inherited_turn()

    def call_in_turn(*args: Any, **options: Any) -> Any:
        token = set_turn(turn)
        try:
            return function(*args, **options)
        finally:
            reset_turn(token)

    return call_in_turn
