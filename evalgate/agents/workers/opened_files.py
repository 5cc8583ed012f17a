"""The files that an agent's processes opened, by eval set."""

from collections.abc import Collection, Mapping

from evalgate.agents.workers.protocol import WorkerProtocolError
from evalgate.core.types import JsonObject


class OpenedFiles:
    """Files of the project that the agent opened in the cases of each eval set.

    Paths are relative to the agent's working folder. When a case ends, all files that its process has opened
    so far count for the case's eval set: the process may use a file again without opening it. A set is
    incomplete if the files of any of its cases are unknown.
    """

    def __init__(self) -> None:
        self._files: dict[str, set[str]] = {}
        self._incomplete: set[str] = set()

    def add_session(self, eval_set_id: str, files: Collection[str] | None) -> None:
        """Add the files that a process had opened when a case of the eval set ended; None: unknown files."""
        self._files.setdefault(eval_set_id, set()).update(files or ())
        if files is None:
            self._incomplete.add(eval_set_id)

    @property
    def by_eval_set(self) -> Mapping[str, tuple[str, ...]]:
        """Return the sorted files of each eval set, without sets in `incomplete`."""
        known = (name for name in self._files if name not in self._incomplete)
        return {name: tuple(sorted(self._files[name])) for name in known}

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return the ids of the eval sets with unknown files, sorted."""
        return tuple(sorted(self._incomplete))


def parse_opened_files(message: JsonObject) -> frozenset[str]:
    """Return the paths of a `files` message.

    Raises:
        WorkerProtocolError: `paths` is not a list of strings.
    """
    paths = message.get("paths")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise WorkerProtocolError("the agent sent a `files` message without a list of paths")
    return frozenset(paths)
