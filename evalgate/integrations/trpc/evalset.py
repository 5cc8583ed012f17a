"""tRPC-Agent-Go's eval sets, of all its releases: objects with `evalCases` and `{role, content}` messages.

`expectedRunnerEnabled`, a setting of another program, is kept, so that a writer can restore it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from evalgate.core.protocols import Document
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.case_list_reader import CaseListReader
from evalgate.datasets.ignored_keys import collect_ignored_keys
from evalgate.documents.key_spelling import find_key_in_any_case, get_member, normalize_key
from evalgate.documents.strict_json import MOST_INSPECTED_CASES, Location, as_sequence

_TRPC_CASE_KEYS = {"evalmode", "actualconversation", "contextmessages", "expectedrunnerenabled"}
_TRPC_RUBRIC_KEYS = {"id", "content", "metricname"}
_TRPC_SCENARIO_KEYS = {"driver", "stopsignal", "maxallowedinvocations"}


class TrpcFormat:
    """The format of tRPC-Agent-Go's `.evalset.json` files."""

    def matches_document(self, document: Document) -> bool:
        """Return True if one of the object's first 100 cases is in tRPC-Agent-Go's format.

        The first of these rules that applies to a case decides:

        1. The scenario has a key that only tRPC-Agent-Go has: True.
        2. The case or a rubric has a key that only tRPC-Agent-Go has, and the case has no final session state
           (a key of Google ADK): False if a turn has `parts`, as Google ADK writes them, otherwise True.
        3. Any other case: True if a turn has `content` or `tools`, and no `parts`.
        """
        return any(
            map(_is_trpc_case, _to_list(get_member(document.value, "evalCases"))[:MOST_INSPECTED_CASES])
        )

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Raises:
            InvalidInputError: the file is invalid. The error lists every problem with its line and column.
        """
        # Imported here, because files of every format are tried with `matches_document`.
        from evalgate.integrations.trpc.cases import TrpcCase, TrpcEvalSetFile, build_trpc_case
        from evalgate.integrations.trpc.fast_cases import parse_simple_case

        reader = CaseListReader(
            document,
            find_key_in_any_case,
            cases_key="evalCases",
            id_key="evalId",
            normalize_key=normalize_key,
        )

        def make_case(index: int, raw: object) -> EvalCase | None:
            line = reader.find_line(index)
            if (case := parse_simple_case(raw, line)) is not None:
                return case
            reader.check_keys(TrpcCase, index, raw)
            wire = reader.validate_case(TrpcCase, index, raw)
            return None if wire is None else build_trpc_case(wire, line)

        return reader.build_eval_set(TrpcEvalSetFile, make_case)

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read."""
        from evalgate.integrations.trpc.cases import TrpcEvalSetFile

        for found in collect_ignored_keys(TrpcEvalSetFile, document.value, normalize_key=normalize_key):
            yield found.location


def _is_trpc_case(case: object) -> bool:
    if not isinstance(case, dict):
        return False
    scenario = get_member(case, "conversationScenario")
    if isinstance(scenario, dict) and _TRPC_SCENARIO_KEYS & set(map(normalize_key, scenario)):
        return True
    has_rubrics = any(
        isinstance(rubric, dict) and _TRPC_RUBRIC_KEYS & set(map(normalize_key, rubric))
        for rubric in _to_list(get_member(case, "rubrics"))
    )
    # Only Google ADK has a final session state: in such a case, keys of tRPC-Agent-Go are mere strays.
    if (has_rubrics or _TRPC_CASE_KEYS & set(map(normalize_key, case))) and get_member(
        case, "finalSessionState"
    ) is None:
        turns = [
            *_to_list(get_member(case, "conversation")),
            *_to_list(get_member(case, "actualConversation")),
        ]
        return not any(_has_parts(turn) for turn in turns)
    return any(_is_trpc_turn(turn) for turn in _to_list(get_member(case, "conversation")))


def _is_trpc_turn(turn: object) -> bool:
    messages = get_member(turn, "userContent"), get_member(turn, "finalResponse")
    has_content = any(
        isinstance(each, dict) and "content" in set(map(normalize_key, each)) for each in messages
    )
    return (has_content or get_member(turn, "tools") is not None) and not _has_parts(turn)


def _has_parts(turn: object) -> bool:
    messages = get_member(turn, "userContent"), get_member(turn, "finalResponse")
    return any(isinstance(each, dict) and "parts" in each for each in messages)


def _to_list(value: object) -> Sequence[Any]:
    return as_sequence(value) or ()
