"""A case that was read from a `results.json`, with the JSON that it stood there as."""

from dataclasses import fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from evalgate.model import CaseResult, RunResult, TurnResult
from evalgate.redaction.redacted import Redacted

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_fields_of_case = attrgetter(*(each.name for each in fields(CaseResult)))
_fields_of_run = attrgetter(*(each.name for each in fields(RunResult)))


class WrittenRun(RunResult):
    """Equal to the run that it is. Its turns are made of the JSON that it was read from when somebody asks.

    `dataclasses.replace` gives one that has them.
    """

    __slots__ = ()

    def said(self) -> tuple[TurnResult, ...]:
        """The turns, from where they are written."""
        raise NotImplementedError

    def said_as_json(self) -> list[object] | None:
        """The turns as a record writes them, without making objects of them; None when they must be."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> tuple[TurnResult, ...]:
        """The turns, when they are asked for first."""
        if name != "turns":
            raise AttributeError(name)
        turns = self.said()
        object.__setattr__(self, name, turns)
        return turns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunResult):
            return NotImplemented
        return bool(_fields_of_run(self) == _fields_of_run(other))

    __hash__ = RunResult.__hash__


class RunInLine(WrittenRun):
    """A run in the line of its case."""

    __slots__ = ("_at",)
    _at: tuple[str, int]
    """The JSON of the case, and which of its runs this is."""

    def written_in(self, line: str, index: int) -> None:
        """Say once where it stands."""
        object.__setattr__(self, "_at", (line, index))

    def said(self) -> tuple[TurnResult, ...]:
        """See `WrittenRun`."""
        line, index = self._at
        return _case_in(line).runs[index].turns

    def said_as_json(self) -> list[object] | None:
        """See `WrittenRun`."""
        if not hasattr(self, "_at"):
            return None
        line, index = self._at
        return _turns_in(line)[index]


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
        for index, run in enumerate(self.runs):
            if isinstance(run, RunInLine):
                run.written_in(line, index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaseResult):
            return NotImplemented
        return bool(_fields_of_case(self) == _fields_of_case(other))

    __hash__ = CaseResult.__hash__


# Who asks for one run of a case mostly asks for the next one, too: a line is not read once for each.


@lru_cache(maxsize=1)
def _case_in(line: str) -> CaseResult:
    return _adapter().validate_json(line, strict=True)


@lru_cache(maxsize=1)
def _turns_in(line: str) -> list[list[object]]:
    """Of each run, as plain values that nobody changes."""
    from pydantic_core import from_json

    return [run["turns"] for run in from_json(line)["runs"]]


@cache
def _adapter() -> "TypeAdapter[CaseResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(CaseResult)
