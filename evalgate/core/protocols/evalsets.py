"""Protocols of readers, checkers, writers and editors of eval sets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.protocols.metrics import Metric
from evalgate.core.types import EvalCase, EvalSet, JsonObject


class Document(Protocol):
    """Decoded JSON file, with the line and column of every value."""

    @property
    def path(self) -> str:
        """Return the path of the file, as the user wrote it."""
        ...

    @property
    def value(self) -> object:
        """Return the decoded JSON; a long list of a large file is a lazy `Sequence` and not a `list`.

        Each access to an item of a lazy sequence decodes the item again, so iterate over it only once. Keep
        no items, because all items together may not fit into memory.
        """
        ...

    def find_position(self, location: tuple[str | int, ...]) -> tuple[int, int]:
        """Return line and column (1-based) of the value at a path of keys and indices.

        If the path does not exist, return the position of its nearest existing parent.
        """
        ...


class EvalFormat(Protocol):
    """Reader of one kind of eval-set file."""

    def matches_document(self, document: Document) -> bool:
        """Return True if the content looks like this format. The file name does not count."""
        ...

    def read_eval_set(self, document: Document) -> EvalSet:
        """Return the eval set in the file.

        Raises:
            InvalidInputError: the file is wrong; the error has every problem with line and column.
        """
        ...


@runtime_checkable
class ReportsIgnoredKeys(Protocol):
    """A format that can list the keys that it ignores."""

    def find_ignored_keys(self, document: Document) -> Iterable[tuple[str | int, ...]]:
        """Return the path of each ignored key of a valid file, as a tuple of keys and indices."""
        ...


@frozen
class WriteResult:
    """Text of an eval-set file, and a list of the data that its format cannot hold."""

    text: str
    lost: tuple[str, ...] = ()
    """Data that the format cannot hold. Each item is a text such as `CASE: DATA`."""


class EvalSetWriter(Protocol):
    """Writer of a kind of eval-set file: the inverse of `EvalFormat`."""

    def write_eval_set(self, eval_set: EvalSet) -> WriteResult:
        """Return the text of the whole file, and the data of `eval_set` that the format cannot hold."""
        ...


class EvalSetEditor(Protocol):
    """Editor of a kind of eval-set file, which changes cases in the decoded JSON of the file.

    The methods must return each unchanged object or list of the file as the same Python object, not as a
    copy: evalgate recognizes it by identity, and keeps its text in the file.
    """

    def get_cases(self, value: object) -> Sequence[JsonObject]:
        """Return the decoded cases of a decoded file, in the order of the eval set."""
        ...

    def replace_cases(self, value: object, cases: Sequence[JsonObject]) -> object:
        """Return the decoded file with `cases` in place of its cases.

        Raises:
            InvalidInputError: the file cannot hold that number of cases.
        """
        ...

    def edit_case(self, raw: JsonObject, old: EvalCase, new: EvalCase) -> JsonObject:
        """Return the decoded case `raw` with the changes from `old` to `new`.

        `old` is the case that was read from `raw`. Reading the result must produce `new`.

        Raises:
            InvalidInputError: the format cannot hold the change.
        """
        ...


@frozen
class LintWarning:
    """Likely mistake in a valid eval set."""

    line: int
    """Line number, from 1; 0 when unknown."""
    eval_id: str
    message: str
    """The likely mistake, in one sentence."""


CaseChecker: TypeAlias = Callable[[EvalCase], Iterable[str]]
"""Function that yields a sentence for each likely mistake in a case. Called once per case, in file order."""


class Lint(Protocol):
    """A search for likely mistakes in a valid eval set."""

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return a function that checks one case of `eval_set`.

        `metrics` are the metrics of the eval set, by the names in the user's files.
        """
        ...
