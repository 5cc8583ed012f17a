"""Test vectors of watsonx Orchestrate: datasets, transcripts, and the results of its engine 1.6.9."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalgate.core.types import CaseRun, EvalCase
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from evalgate.integrations.orchestrate.journey.arguments import (
    compare_as_date_or_number,
    find_strategy,
    iter_leaves,
)
from evalgate.integrations.orchestrate.recordings import read_conversation
from tests.conformance import shared_folder


@dataclass(frozen=True)
class ScriptedJudge:
    """Judge that returns the verdicts of a vector, or compares texts, as `definition` in the file describes."""

    said: dict[tuple[str, str], bool] = field(default_factory=dict)
    equivalents: tuple[tuple[str, str], ...] = ()
    always: bool | None = None
    """Verdict on every question, for a recording that has only one verdict for the whole run."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool:
        plain = _plain(text)
        if self.always is not None:
            return self.always
        return all(_plain(keyword) in plain for keyword in keywords)

    async def matches_text(self, expected: str, text: str) -> bool:
        if self.always is not None:
            return self.always
        equal = _plain(expected) == _plain(text) or (expected, text) in self.equivalents
        return self.said.get((expected, text), equal)

    async def confirms_check(self, check: str, transcript: str) -> bool:
        # Ours has calls where the row may have another text beside them.
        verdicts = {verdict for (asked, _), verdict in self.said.items() if asked == check}
        return self.said[check, transcript] if len(verdicts) > 1 else verdicts.pop()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


@dataclass(frozen=True)
class Vector:
    id: str
    dataset: Any
    transcript: Any
    judge: ScriptedJudge
    expected: dict[str, Any]

    def case(self) -> EvalCase:
        document = parse_json(json.dumps(self.dataset).encode(), "vector.json")
        return OrchestrateFormat().read_eval_set(document).cases[0]

    def run(self) -> CaseRun:
        document = parse_json(json.dumps(self.transcript).encode(), "vector.messages.json")
        return CaseRun(1, "answered", tuple(turn.expected for turn in read_conversation(document)))


_LONG_NUMBER = re.compile(r"[0-9]{16}")


def decided_otherwise(row: dict[str, Any]) -> bool:
    """Return True for a row that evalgate decides differently on purpose, or on which the original crashes.

    docs/conformance.md describes these differences.
    """
    goals = row["dataset"].get("goal_details") or [] if isinstance(row["dataset"], dict) else []
    return (
        "_errors" in row["expected"]
        or bool(_LONG_NUMBER.search(json.dumps([row["dataset"], row["transcript"]])))
        or any(len(message.get("tool_calls") or ()) > 1 for message in row["transcript"])
        or any(lacks_a_tool(goal) or _asks_for_nothing(goal) or _likens_texts(goal) for goal in goals)
    )


def lacks_a_tool(goal: dict[str, Any]) -> bool:
    """Return True for a goal that is a tool call without the tool's name: the original crashes on it."""
    return goal.get("type") == "tool_call" and not goal.get("tool_name")


def _asks_for_nothing(goal: dict[str, Any]) -> bool:
    return goal.get("type") == "text" and not (goal.get("response") or goal.get("summary"))


def _likens_texts(goal: dict[str, Any]) -> bool:
    """Return True if arguments are compared as texts with the strategy `fuzzy`.

    The original uses embeddings for this, or a score that nearly all texts pass.
    """
    matching, args = goal.get("arg_matching") or {}, goal.get("args") or {}
    fuzzy = [value for path, value in iter_leaves(args) if find_strategy(path, matching) == "fuzzy"]
    return any(compare_as_date_or_number(value, value) is None for value in fuzzy)


def vectors() -> list[Vector]:
    committed = json.loads(Path(__file__).with_name("orchestrate_cases.json").read_text("utf-8"))
    theirs = [row for row in rows("journeys.json") if not decided_otherwise(row)]
    return [_vector(row) for row in (*committed, *theirs)]


def _vector(row: dict[str, Any]) -> Vector:
    scripted = row.get("judge") or {}
    verdicts = [*scripted.get("verdicts", ()), *row.get("judge_calls", ())]
    said = {}
    for verdict in verdicts:
        if verdict["kind"] == "semantic":
            said[(verdict["expected"], verdict["actual"])] = verdict["verdict"]
        elif verdict["kind"] == "assert_llm":
            said[(verdict["check"], verdict["context"])] = verdict["verdict"]
    equivalents = tuple((one, other) for one, other in scripted.get("semantic_equivalents", ()))
    always = row["expected"]["text_match"] == 1 if "recorded_by_ibm" in row else None
    judge = ScriptedJudge(said, equivalents, always)
    return Vector(row["id"], row["dataset"], row["transcript"], judge, row["expected"])


def rows(name: str) -> list[Any]:
    folder = shared_folder()
    path = folder / "conformance/orchestrate" / name if folder else Path("/nonexistent")
    found: list[Any] = json.loads(path.read_text("utf-8")) if path.is_file() else []
    return found
