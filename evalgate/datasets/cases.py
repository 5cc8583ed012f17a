"""Build, change and fingerprint the cases of an eval set, which are in memory or in a large file."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import eq
from typing import Any, TypeAlias

from evalgate.core.types import CaseKey, EvalCase, EvalSet
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.documents.validation_errors import list_case_names

MakeCase: TypeAlias = Callable[[int, Any], EvalCase | None]
"""Function that builds a case from its index in a list (0-based) and its decoded item. For an invalid item,
the function records the problem in a list of the reader that created the function, and returns None."""

CaseChange: TypeAlias = Callable[[EvalCase], EvalCase]
"""Function that returns a changed case. It must be pure: it may be called several times for the same case."""


class CasesInFile(Sequence[EvalCase]):
    """Cases that stay in their file, and are decoded on access.

    `datasets.large` has the only implementation.
    """

    @abstractmethod
    def map_cases(self, change: CaseChange, *, keeps_metadata: bool = False) -> "CasesInFile":
        """Return the cases with `change` applied to a case each time it is decoded.

        `keeps_metadata=True` promises that `change` keeps each case's id, line, tags, status, source and
        kinds of expectations. Then no case is decoded before its next access.
        """

    @abstractmethod
    def assign_eval_set(self, eval_set_id: str) -> "CasesInFile":
        """Return the cases with `eval_set_id` as the id of their eval set."""

    @abstractmethod
    def fingerprint_cases(self) -> tuple[str, ...]:
        """Return the fingerprint of each case, in order."""


def build_cases(items: Sequence[Any], make: MakeCase) -> Sequence[EvalCase]:
    """Return a tuple with a case for each item, or `CasesInFile` if the list stays in its file.

    `make` builds the cases. An item for which `make` returns None is invalid and left out.
    """
    if not isinstance(items, list | tuple):
        from evalgate.datasets.large.large_json import LongList
        from evalgate.datasets.large.stored_cases import StoredCases

        if isinstance(items, LongList):
            return StoredCases(items, make)
    return tuple([case for index, item in enumerate(items) if (case := make(index, item)) is not None])


def has_repeated_ids(cases: Sequence[EvalCase]) -> bool:
    """Return True if two cases have the same id."""
    # Hashes first: the texts of all ids of a large set would take most of the memory.
    hashes = sorted([hash(case.eval_id) for case in cases])
    return any(map(eq, hashes, hashes[1:])) and len({case.eval_id for case in cases}) < len(cases)


def map_cases(
    cases: Sequence[EvalCase], change: CaseChange, *, keeps_metadata: bool = False
) -> Sequence[EvalCase]:
    """Return the cases with `change` applied to each. Cases in a file are changed after each decoding.

    `keeps_metadata=True` promises that `change` keeps each case's id, line, tags, status, source and kinds of
    expectations, such as tool calls. Then cases in a file are not decoded before their next access.
    """
    if isinstance(cases, CasesInFile):
        return cases.map_cases(change, keeps_metadata=keeps_metadata)
    return tuple([change(case) for case in cases])


def assign_eval_set(cases: Sequence[EvalCase], eval_set_id: str) -> Sequence[EvalCase]:
    """Return the cases with `eval_set_id` as the id of their eval set."""
    if isinstance(cases, CasesInFile):
        return cases.assign_eval_set(eval_set_id)
    if all(case.eval_set_id == eval_set_id for case in cases):
        return cases
    return tuple([replace(case, eval_set_id=eval_set_id) for case in cases])


def fingerprint_cases(cases: Sequence[EvalCase]) -> tuple[str, ...]:
    """Return the fingerprint of each case, in order."""
    if isinstance(cases, CasesInFile):
        return cases.fingerprint_cases()
    return tuple(map(compute_case_fingerprint, cases))


def select_cases(
    ids: Sequence[str],
    tags: Collection[str],
    eval_sets: Iterable[EvalSet],
    find_tags: Callable[[CaseKey], Collection[str]],
) -> Iterator[CaseKey]:
    """Yield the keys of cases that match a glob in `ids`, or have a tag in `tags`.

    A glob may match the case's id, `eval set:id` or `file:id`. `find_tags` returns the tags of a case.
    """
    for eval_set in eval_sets:
        for case in eval_set.cases:
            key = (eval_set.eval_set_id, case.eval_id)
            names = list_case_names(eval_set.eval_set_id, eval_set.path, case.eval_id)
            by_id = any(fnmatchcase(name, pattern) for pattern in ids for name in names)
            if by_id or not set(tags).isdisjoint(find_tags(key)):
                yield key


def describe_selection(ids: Iterable[str], tags: Iterable[str]) -> str:
    """Return ids and tags as "called `a*` or tagged `b`", for a message about cases that do not exist."""
    return " or ".join([*(f"called `{pattern}`" for pattern in ids), *(f"tagged `{name}`" for name in tags)])


def describe_unmatched_names(
    ids: Sequence[str],
    tags: Sequence[str],
    eval_sets: Sequence[EvalSet],
    find_tags: Callable[[CaseKey], Collection[str]],
) -> str:
    """Return ids and tags that are probably mistakes, worded as "called `a` or tagged `b`"; "" if none.

    If `ids` and `tags` together select no case, the text names all of them. Otherwise, it names only the ids
    without wildcards that match no case, and does not check tags and ids with wildcards.
    """
    if not any(True for _ in select_cases(ids, tags, eval_sets, find_tags)):
        return describe_selection(ids, tags)
    missing = {pattern for pattern in ids if not set(pattern) & set("*?[")}
    for eval_set in eval_sets if missing else ():
        for case in eval_set.cases:
            missing.difference_update(list_case_names(eval_set.eval_set_id, eval_set.path, case.eval_id))
    return describe_selection([name for name in ids if name in missing], ())
