"""Eval sets of adk-rs' first format: `id` instead of Google ADK's `eval_set_id` and `eval_id`.

Newer files of adk-rs are Google ADK's. Unlike adk-rs 0.6, null counts as absent, and events in the order in
which they happened (`invocation_events`) are read. https://docs.rs/adk-rs, `eval::EvalSet`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evalgate.core.errors import Problem
from evalgate.core.protocols import Document
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.discovery import build_eval_set
from evalgate.datasets.ignored_keys import KeyChecker, collect_ignored_keys
from evalgate.datasets.large.lazy_cases import build_cases
from evalgate.documents.strict_json import LOOKED_AT, as_sequence, clear_items, get_items
from evalgate.documents.validation import Location, find_repeated_ids, validate_model


class AdkRsFormat:
    """The `.evalset.json` of adk-rs, with either spelling of the ids."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with eval cases in which the set or a case has an `id`."""
        value = document.value
        if not isinstance(value, dict) or as_sequence(value.get("eval_cases")) is None:
            return False
        return _has_plain_id(value, "eval_set_id", "evalSetId") or any(
            _has_plain_id(case, "eval_id", "evalId") for case in value["eval_cases"][:LOOKED_AT]
        )

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Raises:
            InvalidInputError: with every problem of the file, each at its line and column.
        """
        # Imported here, because files of every format are tried with `matches_document`.
        from evalgate.integrations.adk_rs.cases import AdkRsEvalSetFile

        problems: list[Problem] = []
        header = clear_items(document.value, "eval_cases")
        keys = KeyChecker(document.path, document.find_position, problems)
        keys.check_value(AdkRsEvalSetFile, header)
        head = validate_model(
            AdkRsEvalSetFile, header, problems, file=document.path, position=document.find_position
        )
        cases = _build_cases(document, problems, keys)
        return build_eval_set(document.path, head, cases, keys, partial(_find_repeated_ids, document))

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read."""
        from evalgate.datasets.turn_shapes import CONTENTS
        from evalgate.integrations.adk_rs.cases import AdkRsEvalSetFile

        for found in collect_ignored_keys(AdkRsEvalSetFile, document.value):
            if not set(CONTENTS).intersection(found.location[:-1]):
                yield found.location


def _build_cases(document: Document, problems: list[Problem], keys: KeyChecker) -> Sequence[EvalCase]:
    from evalgate.integrations.adk_rs.cases import AdkRsCase, build_adk_rs_case

    def make_case(index: int, raw: Any) -> EvalCase | None:
        place = ("eval_cases", index)
        if keys.is_open:
            keys.check_value(AdkRsCase, raw, place)
        wire = validate_model(
            AdkRsCase, raw, problems, file=document.path, position=document.find_position, prefix=place
        )
        return None if wire is None else build_adk_rs_case(wire, document.find_position(place)[0], raw)

    return build_cases(get_items(document.value, "eval_cases"), make_case)


def _has_plain_id(value: object, *canonical: str) -> bool:
    return isinstance(value, dict) and "id" in value and not value.keys() & set(canonical)


def _find_repeated_ids(document: Document) -> Iterator[Problem]:
    def iter_ids() -> Iterator[tuple[object, Location]]:
        for index, case in enumerate(get_items(document.value, "eval_cases")):
            if isinstance(case, dict):
                key = "eval_id" if "eval_id" in case else "id"
                yield case.get(key), ("eval_cases", index, key)

    return find_repeated_ids(iter_ids(), file=document.path, position=document.find_position)
