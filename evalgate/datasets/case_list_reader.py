"""Read eval set files that hold one JSON object: the keys of a header, and a list of cases."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.cases import MakeCase, build_cases, has_repeated_ids
from evalgate.datasets.ignored_keys import KeyChecker, KeyNormalizer
from evalgate.documents.key_spelling import KeyFinder, get_member, match_spelling
from evalgate.documents.strict_json import Location, clear_items, get_items
from evalgate.documents.validation_errors import find_repeated_ids, validate_model

_Model = TypeVar("_Model", bound=BaseModel)


class EvalSetHeader(Protocol):
    """Header of an eval set file: all of its top-level keys except the list of cases."""

    @property
    def eval_set_id(self) -> str:
        """Return the id of the set."""
        ...

    @property
    def name(self) -> str | None:
        """Return the set's display name; None if it has none."""
        ...

    @property
    def description(self) -> str | None:
        """Return the description of the set; None if it has none."""
        ...

    @property
    def creation_timestamp(self) -> float | None:
        """Return the time of the set's creation in seconds since the epoch; None if it is unknown."""
        ...


def finish_reading(
    keys: KeyChecker, cases: Sequence[EvalCase], find_repeated: Callable[[], Iterable[Problem]]
) -> tuple[str, ...]:
    """Return the notices about ignored keys, after a file was read completely.

    `find_repeated` yields a problem for each id that several cases share. This function calls it only if
    there are repeated ids or other problems, because `find_repeated` reads the whole file again.

    Raises:
        InvalidInputError: the file has problems. The error lists all of them in the order of the file.
    """
    notices, problems = keys.build_notices(), keys.problems
    if problems or has_repeated_ids(cases):
        problems += find_repeated()
    if problems:
        raise InvalidInputError(sorted(problems))
    return notices


class CaseListReader:
    """Reader of a file that holds an object with a list of cases; the rest of the object is its header.

    `cases_key` is the key of the list, and `id_key` the key of a case's id, both as the format's pydantic
    models name them. `find_key` returns the spelling of a key in the file. The reader needs this spelling to
    find the list of cases and the positions of problems. `normalize_key` normalizes a key, so that all
    spellings of a known key are recognised. `equivalent_keys` maps keys of other formats to keys of this
    format, for notices.
    """

    def __init__(
        self,
        document: Document,
        find_key: KeyFinder,
        *,
        cases_key: str,
        id_key: str,
        normalize_key: KeyNormalizer = str,
        equivalent_keys: Mapping[str, str] | None = None,
    ) -> None:
        self._document = document
        self._find_key = find_key
        self._model_keys = cases_key, id_key
        self._cases_key = find_key(document.value, cases_key)
        self.eval_set_id = ""
        """Id in the header; "" if the header is invalid. `build_eval_set` sets it before it builds cases."""
        self._problems: list[Problem] = []
        self.keys = KeyChecker(
            document.path,
            document.find_position,
            self._problems,
            normalize_key=normalize_key,
            equivalent_keys=equivalent_keys or {},
        )

    @property
    def raw_cases(self) -> Sequence[Any]:
        """Return the decoded cases; empty if the file has no list of them."""
        return get_items(self._document.value, self._cases_key)

    @property
    def header(self) -> object:
        """Return the file's object with an empty list of cases."""
        return clear_items(self._document.value, self._cases_key)

    def get_case_location(self, index: int) -> Location:
        """Return the location of the case at the 0-based `index`: the key of the list, and the index."""
        return self._cases_key, index

    def find_line(self, index: int) -> int:
        """Return the 1-based line in which the case at the 0-based `index` begins."""
        return self._document.find_position((self._cases_key, index))[0]

    def check_keys(self, model: type[BaseModel], index: int, raw: object) -> None:
        """Report keys of the decoded case `raw`, at the 0-based `index`, that `model` does not read.

        Do nothing after the whole file was read, because cases of a large file are decoded repeatedly.
        """
        if self.keys.is_open:
            self.keys.check_value(model, raw, (self._cases_key, index))

    def validate_case(self, model: type[_Model], index: int, raw: object) -> _Model | None:
        """Return the decoded case `raw` as a `model`; if invalid, record its problems and return None.

        `index` is the 0-based position of the case in the list.
        """
        return self._validate(model, raw, (self._model_keys[0], index))

    def build_eval_set(self, header_model: type[BaseModel], make_case: MakeCase) -> EvalSet:
        """Read the header and all cases, and return the eval set.

        `header_model` is the pydantic model of the header, with the attributes of `EvalSetHeader`.
        `make_case` builds a case from its index and its decoded JSON.

        Raises:
            InvalidInputError: the file has problems. The error lists all of them in the order of the file.
        """
        self.keys.check_value(header_model, self.header)
        validated = self._validate(header_model, self.header)
        # None only until `finish_reading`, which raises the problems of an invalid header.
        header = cast("EvalSetHeader", validated)
        self.eval_set_id = header.eval_set_id if validated else ""
        cases = build_cases(self.raw_cases, make_case)
        notices = finish_reading(self.keys, cases, self._find_repeated_ids)
        return EvalSet(
            header.eval_set_id,
            cases,
            self._document.path,
            header.name,
            header.description,
            header.creation_timestamp or 0.0,
            notices=notices,
        )

    def _validate(self, model: type[_Model], value: object, prefix: Location = ()) -> _Model | None:
        return validate_model(
            model,
            value,
            self._problems,
            file=self._document.path,
            position=self._find_position,
            prefix=prefix,
        )

    def _find_repeated_ids(self) -> Iterator[Problem]:
        cases_key, id_key = self._model_keys
        ids = (
            (get_member(case, id_key, self._find_key), (cases_key, index, id_key))
            for index, case in enumerate(self.raw_cases)
        )
        return find_repeated_ids(ids, file=self._document.path, position=self._find_position)

    def _find_position(self, location: Location) -> tuple[int, int]:
        spelled = match_spelling(self._document.value, location, self._find_key)
        return self._document.find_position(spelled)
