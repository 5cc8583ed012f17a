"""State that all pages of one viewer share."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from evalgate.core.frozen import frozen
from evalgate.datasets.edit_undo import UndoableEdits
from evalgate.viewer.eval_sets import EvalSetStore
from evalgate.viewer.records import RecordStore
from evalgate.viewer.security import Access

if TYPE_CHECKING:
    from starlette.requests import Request


@frozen
class NavigationLink:
    """Link in the navigation at the top of every page."""

    title: str
    path: str


class Closable(Protocol):
    """Object that must be closed when the server ends."""

    def close(self) -> None:
        """Release what the object holds. No other method may be called afterwards."""
        ...


_Service = TypeVar("_Service", bound=Closable)


@dataclass(slots=True)
class Viewer:
    """State of one server: the project that it shows, and the secrets that protect it."""

    folder: Path
    """Folder of the project. Outside of it, only files that the command line names are read."""
    records: RecordStore
    access: Access
    thresholds: str | None = None
    """Thresholds file that the command line names; None: the file is searched in the folder."""
    navigation: tuple[NavigationLink, ...] = ()
    services: dict[type, object] = field(default_factory=dict)
    """Objects that live longer than a request, such as the conversation of the chat page, by their class."""
    edits: UndoableEdits = field(default_factory=UndoableEdits)
    """Edits of eval sets, which can be undone until the server ends."""
    resources: ExitStack = field(default_factory=ExitStack)
    """Resources that pages register to be closed when the server ends."""
    eval_sets: EvalSetStore = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.eval_sets = EvalSetStore(self.folder, self.thresholds)

    def get_service(self, kind: type[_Service], create: Callable[[], _Service]) -> _Service:
        """Return the viewer's only object of the class `kind`; the first call creates it.

        The object is closed when the server ends. Several threads may call this at the same time.
        """
        with self._lock:
            found = self.services.get(kind)
            if not isinstance(found, kind):
                found = self.services[kind] = create()
                self.resources.callback(found.close)
            return found


def get_viewer(request: "Request") -> Viewer:
    """Return the viewer that serves a request."""
    viewer: Viewer = request.app.state.viewer
    return viewer
