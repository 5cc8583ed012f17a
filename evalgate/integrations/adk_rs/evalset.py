"""Eval sets of adk-rs' first format: `id` instead of Google ADK's `eval_set_id` and `eval_id`.

Newer files of adk-rs have Google ADK's format. evalgate differs from adk-rs 0.6 in two ways: null counts as
absent, while adk-rs refuses most nulls; and events in `invocation_events` keep their calls, while adk-rs
drops the calls. See https://docs.rs/adk-rs, `eval::EvalSet`.
"""

from collections.abc import Iterator
from typing import Any

from evalgate.core.protocols import Document
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.case_list_reader import CaseListReader
from evalgate.datasets.ignored_keys import collect_ignored_keys
from evalgate.documents.strict_json import MOST_INSPECTED_CASES, Location, as_sequence


class AdkRsFormat:
    """Eval sets of adk-rs (`.evalset.json`), with `id` or Google ADK's keys for the ids."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with eval cases if it, or one of its first 100 cases, has the key `id`.

        An `id` next to Google ADK's key, `eval_set_id` or `eval_id`, does not count.
        """
        value = document.value
        if not isinstance(value, dict) or as_sequence(value.get("eval_cases")) is None:
            return False
        return _has_plain_id(value, "eval_set_id", "evalSetId") or any(
            _has_plain_id(case, "eval_id", "evalId") for case in value["eval_cases"][:MOST_INSPECTED_CASES]
        )

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Raises:
            InvalidInputError: the file is invalid. The error lists every problem with its line and column.
        """
        # Imported here, because files of every format are tried with `matches_document`.
        from evalgate.integrations.adk_rs.cases import AdkRsCase, AdkRsEvalSetFile, build_adk_rs_case

        reader = CaseListReader(document, _find_id_key, cases_key="eval_cases", id_key="eval_id")

        def make_case(index: int, raw: Any) -> EvalCase | None:
            reader.check_keys(AdkRsCase, index, raw)
            wire = reader.validate_case(AdkRsCase, index, raw)
            return None if wire is None else build_adk_rs_case(wire, reader.find_line(index), raw)

        return reader.build_eval_set(AdkRsEvalSetFile, make_case)

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read.

        Keys within messages and steps are left out.
        """
        from evalgate.datasets.adk_turns import CONTENTS
        from evalgate.integrations.adk_rs.cases import AdkRsEvalSetFile

        for found in collect_ignored_keys(AdkRsEvalSetFile, document.value):
            if not set(CONTENTS).intersection(found.location[:-1]):
                yield found.location


def _has_plain_id(value: object, *canonical: str) -> bool:
    return isinstance(value, dict) and "id" in value and not value.keys() & set(canonical)


def _find_id_key(value: object, name: str) -> str:
    """Return the key in `value` that is equivalent to `name`, a key of Google ADK.

    For the ids `eval_id` and `eval_set_id`, the result is `id` if `value` has this key and lacks `name`. In
    all other cases, the result is `name`.
    """
    is_id = name in {"eval_id", "eval_set_id"}
    return "id" if is_id and isinstance(value, dict) and name not in value and "id" in value else name
