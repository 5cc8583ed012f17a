"""tRPC-Agent-Go's eval sets, of all its releases: objects with `evalCases` and `{role, content}` messages.

`expectedRunnerEnabled`, which concerns another program, is kept so that a writer can restore it.
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
from evalgate.documents.strict_json import LOOKED_AT, as_sequence, clear_items
from evalgate.documents.validation import Location, find_repeated_ids, validate_model
from evalgate.integrations.trpc.keys import get_member, match_spelling, normalize_key

_TRPC_CASE_KEYS = {"evalmode", "actualconversation", "contextmessages", "expectedrunnerenabled"}
_TRPC_RUBRIC_KEYS = {"id", "content", "metricname"}
_TRPC_SCENARIO_KEYS = {"driver", "stopsignal", "maxallowedinvocations"}


class TrpcFormat:
    """The format of tRPC-Agent-Go's `.evalset.json` files."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with eval cases as only tRPC-Agent-Go writes them.

        Messages with `parts` do not count, since Google ADK writes them too.
        """
        return any(map(_is_trpc_case, _to_list(get_member(document.value, "evalCases"))[:LOOKED_AT]))

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Raises:
            InvalidInputError: with every problem of the file, each at its line and column.
        """
        # Imported here, because files of every format are tried with `matches_document`.
        from evalgate.integrations.trpc.cases import TrpcEvalSetFile

        problems: list[Problem] = []
        position = partial(_find_position, document)
        keys = KeyChecker(document.path, document.find_position, problems, spelled=normalize_key)
        keys.check_value(TrpcEvalSetFile, _get_header(document.value))
        head = validate_model(
            TrpcEvalSetFile, _get_header(document.value), problems, file=document.path, position=position
        )
        cases = _build_cases(document, problems, keys)
        return build_eval_set(document.path, head, cases, keys, partial(_find_repeated_ids, document))

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read."""
        from evalgate.integrations.trpc.cases import TrpcEvalSetFile

        for found in collect_ignored_keys(TrpcEvalSetFile, document.value, spelled=normalize_key):
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


def _find_repeated_ids(document: Document) -> Iterator[Problem]:
    ids = (
        (get_member(case, "evalId"), ("evalCases", index, "evalId"))
        for index, case in enumerate(_to_list(get_member(document.value, "evalCases")))
    )
    return find_repeated_ids(ids, file=document.path, position=partial(_find_position, document))


def _to_list(value: object) -> Sequence[Any]:
    return as_sequence(value) or ()


def _find_position(document: Document, location: Location) -> tuple[int, int]:
    return document.find_position(match_spelling(document.value, location))


def _get_header(value: object) -> object:
    """Return the file's object with an empty list of cases."""
    (key,) = match_spelling(value, ("evalCases",))
    return clear_items(value, str(key))


def _build_cases(document: Document, problems: list[Problem], keys: KeyChecker) -> Sequence[EvalCase]:
    from evalgate.integrations.trpc.cases import TrpcCase, build_trpc_case, parse_common_case

    (key,) = match_spelling(document.value, ("evalCases",))
    position = partial(_find_position, document)

    def make_case(index: int, raw: object) -> EvalCase | None:
        place, (line, _) = ("evalCases", index), document.find_position((key, index))
        if (case := parse_common_case(raw, line)) is not None:
            return case
        if keys.is_open:
            keys.check_value(TrpcCase, raw, (key, index))
        wire = validate_model(TrpcCase, raw, problems, file=document.path, position=position, prefix=place)
        return None if wire is None else build_trpc_case(wire, line)

    return build_cases(_to_list(get_member(document.value, "evalCases")), make_case)
