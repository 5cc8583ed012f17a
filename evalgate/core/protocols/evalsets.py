"""What reads, checks and writes eval sets."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.protocols.metrics import Metric
from evalgate.core.types import EvalCase, EvalSet


class Document(Protocol):
    """One decoded JSON file that knows where everything in it stands."""

    @property
    def path(self) -> str:
        """The file, as the user wrote it."""
        ...

    @property
    def value(self) -> object:
        """The decoded JSON. Of a large file, a long list is a `Sequence` that is no `list`.

        Its items are decoded when they are asked for, each time anew: go through it once, keep none of them.
        """
        ...

    def find_position(self, location: tuple[str | int, ...]) -> tuple[int, int]:
        """Line and column (1-based) of the value at a path of keys and indices.

        Falls back to the nearest parent that exists, so that a missing key is reported at its object.
        """
        ...


class EvalFormat(Protocol):
    """A kind of eval-set file."""

    def matches_document(self, document: Document) -> bool:
        """Whether the content (never the file name) looks like this format."""
        ...

    def read_eval_set(self, document: Document) -> EvalSet:
        """The eval set in the file.

        Raises:
            InvalidInputError: with every problem of the file, each at its line and column.
        """
        ...


@runtime_checkable
class ReportsIgnoredKeys(Protocol):
    """A format that can tell what it passes over."""

    def find_ignored_keys(self, document: Document) -> Iterable[tuple[str | int, ...]]:
        """Paths of the keys in a readable file whose values are in no eval set that is read from it."""
        ...


@frozen
class WriteResult:
    """An eval set as the text of a file."""

    text: str
    lost: tuple[str, ...] = ()
    """What the format has no place for, as `case: what`."""


class EvalSetWriter(Protocol):
    """Writes a kind of eval-set file: the way back from `EvalFormat`."""

    def write_eval_set(self, eval_set: EvalSet) -> WriteResult:
        """The whole file; reading it gives the eval set again, but for what is lost."""
        ...


@frozen
class LintWarning:
    """Something in a readable eval set that its author hardly meant."""

    line: int
    """1-based; 0 when unknown."""
    eval_id: str
    message: str
    """One sentence."""


CaseChecker: TypeAlias = Callable[[EvalCase], Iterable[str]]
"""A sentence for each thing about a case that is suspicious. Asked once for each, in file order."""


class Lint(Protocol):
    """Looks through an eval set that could be read for what can hardly be meant."""

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Who looks at its cases. `metrics`: what the set is held to, by the user's names."""
        ...
