"""Act on a module once it has been imported, without importing it."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Optional

from .guard import guarded

_Action = Callable[[ModuleType], None]


def when_imported(name: str, action: _Action) -> None:
    """Call `action` with the module of that name: now if it is there, else right after its import."""
    action = guarded(action)
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    sys.meta_path.insert(0, _Finder(name, action))


class _Finder:
    """Finds one module as everybody else does, and acts when it has been executed."""

    def __init__(self, name: str, action: _Action) -> None:
        self._name = name
        self._action = action
        self._searching = False

    def find_spec(
        self, name: str, path: object = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Implement `importlib.abc.MetaPathFinder`."""
        del path, target
        if name != self._name or self._searching:
            return None
        self._searching = True  # the search below asks all finders, this one among them
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            self._act_after(spec.loader)
        return spec

    def _act_after(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == self._name:  # a loader of zip files is shared by modules
                loader.__dict__.pop("exec_module", None)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self._action(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return  # a module in C; none that is watched is
