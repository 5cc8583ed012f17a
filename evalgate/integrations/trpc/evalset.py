"""Eval sets of tRPC-Agent-Go, of all its releases: objects with `evalCases` and `{role, content}` messages.

What another program does (`expectedRunnerEnabled`) is kept for the way back.
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
from evalgate.documents.strict_json import LOOKED_AT, items_of, without_items
from evalgate.documents.validation import Location, repeated_ids, shaped
from evalgate.integrations.trpc.keys import member, plain, spelled_position

_OF_ITS_OWN = {"evalmode", "actualconversation", "contextmessages", "expectedrunnerenabled"}
_OF_ITS_RUBRICS = {"id", "content", "metricname"}
_OF_ITS_SCENARIOS = {"driver", "stopsignal", "maxallowedinvocations"}


class TrpcEvalSet:
    """Reads tRPC-Agent-Go's `.evalset.json`."""

    def recognises(self, document: Document) -> bool:
        """An object with eval cases as only tRPC-Agent-Go writes them; with `parts` they are ADK's too."""
        return any(map(_is_its_own, _listed(member(document.value, "evalCases"))[:LOOKED_AT]))

    def read(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        from evalgate.integrations.trpc.cases import WireSet

        problems: list[Problem] = []
        position = partial(_position, document)
        keys = KeyCheck(document.path, document.position, problems, spelled=plain)
        keys.look(WireSet, _head(document.value))
        head = shaped(WireSet, _head(document.value), problems, file=document.path, position=position)
        cases = _cases(document, problems, keys)
        return build_eval_set(document.path, head, cases, keys, partial(_repeated_ids, document))

    def unread(self, document: Document) -> Iterator[Location]:
        """See `TellsUnread`."""
        from evalgate.integrations.trpc.cases import WireSet

        for found in unread_keys(WireSet, document.value, spelled=plain):
            yield found.location


def _is_its_own(case: object) -> bool:
    if not isinstance(case, dict):
        return False
    scenario = member(case, "conversationScenario")
    if isinstance(scenario, dict) and _OF_ITS_SCENARIOS & set(map(plain, scenario)):
        return True
    has_rubrics = any(_is_its_rubric(each) for each in _listed(member(case, "rubrics")))
    if (has_rubrics or _OF_ITS_OWN & set(map(plain, case))) and member(case, "finalSessionState") is None:
        turns = [*_listed(member(case, "conversation")), *_listed(member(case, "actualConversation"))]
        return not any(_has_parts(turn) for turn in turns)
    return any(_is_its_turn(turn) for turn in _listed(member(case, "conversation")))


def _is_its_rubric(rubric: object) -> bool:
    return isinstance(rubric, dict) and bool(_OF_ITS_RUBRICS & set(map(plain, rubric)))


def _is_its_turn(turn: object) -> bool:
    messages = member(turn, "userContent"), member(turn, "finalResponse")
    has_content = any(isinstance(each, dict) and "content" in set(map(plain, each)) for each in messages)
    return (has_content or member(turn, "tools") is not None) and not _has_parts(turn)


def _has_parts(turn: object) -> bool:
    messages = member(turn, "userContent"), member(turn, "finalResponse")
    return any(isinstance(each, dict) and "parts" in each for each in messages)


def _repeated_ids(document: Document) -> Iterator[Problem]:
    ids = (
        (member(case, "evalId"), ("evalCases", index, "evalId"))
        for index, case in enumerate(_listed(member(document.value, "evalCases")))
    )
    return repeated_ids(ids, file=document.path, position=partial(_position, document))


def _listed(value: object) -> Sequence[Any]:
    return items_of(value) or ()


def _position(document: Document, location: Location) -> tuple[int, int]:
    return document.position(spelled_position(document.value, location))


def _head(value: object) -> object:
    """What the file says beside its cases."""
    (key,) = spelled_position(value, ("evalCases",))
    return without_items(value, str(key))


def _cases(document: Document, problems: list[Problem], keys: KeyCheck) -> Sequence[EvalCase]:
    from evalgate.integrations.trpc.cases import WireCase, case_of
    from evalgate.integrations.trpc.fast_reader import plain_case

    (key,) = spelled_position(document.value, ("evalCases",))
    position = partial(_position, document)

    def make(index: int, raw: object) -> EvalCase | None:
        place, (line, _) = ("evalCases", index), document.position((key, index))
        if (case := plain_case(raw, line)) is not None:
            return case
        if keys.is_open:
            keys.look(WireCase, raw, (key, index))
        wire = shaped(WireCase, raw, problems, file=document.path, position=position, prefix=place)
        return None if wire is None else case_of(wire, line)

    return cases_of(_listed(member(document.value, "evalCases")), make)
