"""Store a baseline in a file; a `results.json` can be read as a baseline, too."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from evalgate.baselines.serialization import dump_baseline, is_baseline, load_baseline_or_results
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline
from evalgate.documents.strict_json import parse_json
from evalgate.system.files import make_folder, read_input_file, remove_temporaries, write_atomically
from evalgate.system.folder_lock import lock_folder


@frozen
class FileStore:
    """Baseline store in the file at `path`; `shown_as` is the name of the file in reports."""

    path: Path
    shown_as: str
    owner: tuple[int, int] | None = None
    """uid and gid of the files and folders that are written; None: the ids of the process."""
    next_step: ClassVar[str] = "Commit it."

    def read(self) -> Baseline | None:
        """Read the baseline, or return None if there is no such file yet.

        Raises:
            InvalidInputError: the file cannot be read, or is neither a baseline nor a `results.json`.
        """
        data = self._read_data()
        return load_baseline_or_results(data, self.shown_as) if data is not None else None

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Replace the baseline in the file by the result of `change`, and return this result.

        `change` gets None if there is no file yet. Updates of other processes wait for this update. Missing
        folders are created. The file is replaced atomically, and only if the baseline changed.

        Raises:
            InvalidInputError: the file cannot be read, or is not a baseline, such as a `results.json`.
            OSError: the file cannot be written.
        """
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        make_folder(self.path.parent, self.owner)
        with lock_folder(self.path.parent):
            data = self._read_data()
            if data is not None and not is_baseline(parse_json(data, self.shown_as)):
                raise InvalidInputError(
                    f"{self.shown_as}: this is no baseline but a result, which is left as it is. Choose "
                    "another file with --to, or remove it."
                )
            before = load_baseline_or_results(data, self.shown_as) if data is not None else None
            after = change(before)
            remove_temporaries(self.path)
            if after != before:
                write_atomically(self.path, dump_baseline(after), owner=self.owner)
        return replace(after, path=self.shown_as)

    def _read_data(self) -> bytes | None:
        try:
            return read_input_file(self.path, self.shown_as)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInputError(
                f"{self.shown_as}: the baseline cannot be read: {error.strerror}"
            ) from None
