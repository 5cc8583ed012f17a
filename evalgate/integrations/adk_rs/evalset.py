"""Eval sets of adk-rs as it wrote them first: `id` where Google ADK says `eval_set_id` and `eval_id`.

Its newer files are Google ADK's. Beyond adk-rs 0.6, null counts as absent, and events in the order in which
they happened (`invocation_events`) are read. https://docs.rs/adk-rs, `eval::EvalSet`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evalgate.core.errors import Problem
from evalgate.core.protocols import Document
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.discovery import build_eval_set
from evalgate.datasets.ignored_keys import KeyCheck, unread_keys
from evalgate.datasets.large.lazy_cases import cases_of
from evalgate.documents.strict_json import LOOKED_AT, items_of, items_under, without_items
from evalgate.documents.validation import Location, repeated_ids, shaped


class AdkRsEvalSet:
    """Reads adk-rs' `.evalset.json`, whichever way the ids are spelled."""

    def recognises(self, document: Document) -> bool:
        """An object with eval cases in which the set or a case is called by its `id`."""
        value = document.value
        if not isinstance(value, dict) or items_of(value.get("eval_cases")) is None:
            return False
        return _says_id(value, "eval_set_id", "evalSetId") or any(
            _says_id(case, "eval_id", "evalId") for case in value["eval_cases"][:LOOKED_AT]
        )

    def read(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        from evalgate.integrations.adk_rs.cases import WireSet

        problems: list[Problem] = []
        beside = without_items(document.value, "eval_cases")
        keys = KeyCheck(document.path, document.position, problems)
        keys.look(WireSet, beside)
        head = shaped(WireSet, beside, problems, file=document.path, position=document.position)
        cases = _cases(document, problems, keys)
        return build_eval_set(document.path, head, cases, keys, partial(_repeated_ids, document))

    def unread(self, document: Document) -> Iterator[Location]:
        """See `TellsUnread`."""
        from evalgate.datasets.turn_shapes import CONTENTS
        from evalgate.integrations.adk_rs.cases import WireSet

        for found in unread_keys(WireSet, document.value):
            if not set(CONTENTS).intersection(found.location[:-1]):
                yield found.location


def _cases(document: Document, problems: list[Problem], keys: KeyCheck) -> Sequence[EvalCase]:
    from evalgate.integrations.adk_rs.cases import WireCase, case_of

    def make(index: int, raw: Any) -> EvalCase | None:
        place = ("eval_cases", index)
        if keys.is_open:
            keys.look(WireCase, raw, place)
        wire = shaped(WireCase, raw, problems, file=document.path, position=document.position, prefix=place)
        return None if wire is None else case_of(wire, document.position(place)[0], raw)

    return cases_of(items_under(document.value, "eval_cases"), make)


def _says_id(value: object, *canonical: str) -> bool:
    return isinstance(value, dict) and "id" in value and not value.keys() & set(canonical)


def _repeated_ids(document: Document) -> Iterator[Problem]:
    def ids() -> Iterator[tuple[object, Location]]:
        for index, case in enumerate(items_under(document.value, "eval_cases")):
            if isinstance(case, dict):
                key = "eval_id" if "eval_id" in case else "id"
                yield case.get(key), ("eval_cases", index, key)

    return repeated_ids(ids(), file=document.path, position=document.position)
