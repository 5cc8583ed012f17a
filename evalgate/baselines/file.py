"""A baseline in one file: what `evalgate baseline save` wrote, or any `results.json`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evalgate.baseline import KIND, baseline_of, dump_baseline, load_baseline
from evalgate.errors import InvalidInput
from evalgate.model import Baseline
from evalgate.reading.jsontext import parse_json
from evalgate.record import load_record
from evalgate.system.files import atomic_write


@dataclass(frozen=True, slots=True)
class BaselineFile:
    """The file at `path`; `shown_as` is how reports name it."""

    path: Path
    shown_as: str
    owner: tuple[int, int] | None = None
    """uid and gid that files written here belong to."""

    def read(self) -> Baseline | None:
        """The baseline, or None when there is no such file yet."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInput(f"{self.shown_as}: the baseline cannot be read: {error.strerror}") from None
        document = parse_json(data, self.shown_as)
        if isinstance(document.value, Mapping) and document.value.get("kind") == KIND:
            return replace(load_baseline(document), path=self.shown_as)
        return baseline_of(load_record(data, self.shown_as), path=self.shown_as)

    def write(self, baseline: Baseline) -> None:
        """Replace the file, atomically; folders are made."""
        atomic_write(self.path, dump_baseline(baseline), owner=self.owner)
