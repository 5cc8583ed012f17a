"""A case that was read from a `results.json`, with the JSON that it stood there as."""

from operator import attrgetter

from evalgate.model import CaseResult
from evalgate.redaction.redacted import Redacted

_fields = attrgetter(*CaseResult.__slots__)


class WrittenCase(CaseResult, Redacted):
    """Equal to the case that it is. It is written again as it was, so it must be of this very version.

    `dataclasses.replace` gives one that knows no JSON.
    """

    __slots__ = ("_json",)
    _json: str

    @property
    def json(self) -> str:
        """See `Redacted`."""
        return getattr(self, "_json", "")

    def written_as(self, line: str) -> None:
        """Say once how it stands in its file."""
        object.__setattr__(self, "_json", line)

    def __eq__(self, other: object) -> bool:
        return bool(_fields(self) == _fields(other)) if isinstance(other, CaseResult) else NotImplemented

    __hash__ = CaseResult.__hash__
