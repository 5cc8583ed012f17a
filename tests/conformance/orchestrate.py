"""Journeys of watsonx Orchestrate, as rows: a dataset, a transcript, what its engine 1.6.9 says of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalgate.formats.orchestrate import OrchestrateDataset
from evalgate.journey.messages import read_conversation
from evalgate.model import CaseRun, EvalCase
from evalgate.reading.jsontext import parse_json
from tests.conformance import shared_folder


@dataclass(frozen=True)
class ScriptedJudge:
    """Gives the verdicts of the row; where it has none, compares as `definition` in the rows says."""

    said: dict[tuple[str, str], bool] = field(default_factory=dict)
    equivalents: tuple[tuple[str, str], ...] = ()
    always: bool | None = None
    """The one verdict of a run whose record holds no more than that."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool:
        plain = _plain(text)
        if self.always is not None:
            return self.always
        return all(_plain(keyword) in plain for keyword in keywords)

    async def says(self, expected: str, text: str) -> bool:
        if self.always is not None:
            return self.always
        equal = _plain(expected) == _plain(text) or (expected, text) in self.equivalents
        return self.said.get((expected, text), equal)

    async def affirms(self, check: str, transcript: str) -> bool:
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
        return OrchestrateDataset().read(document).cases[0]

    def run(self) -> CaseRun:
        document = parse_json(json.dumps(self.transcript).encode(), "vector.messages.json")
        return CaseRun(1, "answered", tuple(turn.expected for turn in read_conversation(document)))


OTHERWISE = frozenset({"W50", "W51"})
"""Rows in which we decide otherwise on purpose: ids of 17 digits that the original sends through a float."""


def vectors() -> list[Vector]:
    committed = json.loads(Path(__file__).with_name("orchestrate_cases.json").read_text("utf-8"))
    found = [*committed, *rows("journeys.json")]
    return [_vector(row) for row in found if row["id"] not in OTHERWISE]


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
