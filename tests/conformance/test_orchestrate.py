"""The journeys, values and files of watsonx Orchestrate's evaluation framework 1.6.9."""

import json
from typing import Any

import pytest

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import MetricScore
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import parse_json, read_json
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from evalgate.integrations.orchestrate.journey.arguments import compare_as_date_or_number, normalize_value
from evalgate.integrations.orchestrate.journey.outcome import evaluate_journey
from evalgate.integrations.orchestrate.metrics import (
    JourneyCompletion,
    JourneyMetric,
    JourneySuccess,
    TextMatch,
    ToolCallPrecision,
    ToolCallRecall,
)
from evalgate.integrations.orchestrate.recordings import ENDING, read_conversation
from tests.conformance import shared_folder
from tests.conformance.orchestrate import Vector, lacks_a_tool, rows, vectors

METRICS: dict[str, JourneyMetric] = {
    "is_success": JourneySuccess(),
    "journey_completion": JourneyCompletion(),
    "tool_call_precision": ToolCallPrecision(),
    "tool_call_recall": ToolCallRecall(),
    "text_match": TextMatch(),
}
COUNTS = (
    "expected_tool_calls",
    "total_tool_calls",
    "correct_tool_calls",
    "relevant_tool_calls",
    "missed_tool_calls",
    "tool_calls_with_incorrect_parameter",
)
REFUSED = {
    "adk-2.9.0__examples__evaluations__quick-eval__data_complex_no_annotations.json": "goal_details",
}
"""Files that the original's loader refuses as well, and what is wrong with them."""


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.id)
async def test_scores_are_equal(vector: Vector) -> None:
    results = {
        name: await metric.score_with_judge(vector.case(), vector.run(), vector.judge)
        for name, metric in METRICS.items()
    }
    scores = {
        name: result.score if isinstance(result, MetricScore) else None for name, result in results.items()
    }

    assert scores == {name: vector.expected[name] for name in METRICS}


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.id)
async def test_counts_are_equal(vector: Vector) -> None:
    case = vector.case()
    assert case.journey is not None

    outcome = await evaluate_journey(case, vector.run(), case.journey, vector.judge)

    # Without a goal that asks for a call, the original says NaN of what is 0.
    assert {name: outcome.calls.details[name] for name in COUNTS} == {
        name: vector.expected[name] or 0 for name in COUNTS
    }


NORMALISED = [
    (True, "True"),
    (None, "none"),
    ("A b ", "a b "),
    (" 5 ", "5"),
    ("1e3", "1000"),
    ("10.0", "10"),
    (2.5, "2.5"),
    (["b", "A", 1], ["1", "a", "b"]),
    ({"K": {"x": ["B", "a"]}}, {"K": {"x": ["a", "b"]}}),
    ("<IGNORE>", "<IGNORE>"),
    ("1e999", "1e999"),
    *[(row["input"], row["output"]) for row in rows("normalize_args.json")],
]


@pytest.mark.parametrize(("value", "expected"), NORMALISED, ids=str)
def test_values_are_normalised(value: Any, expected: Any) -> None:
    # The original sends texts through a float: see docs/conformance.md.
    if isinstance(value, str) and value.isdecimal():
        expected = str(int(value))
    elif isinstance(value, str) and expected in {"inf", "-inf"} and any(map(str.isdigit, value)):
        expected = value.lower()

    assert normalize_value(value) == expected


COMPARED = [
    ("1.0005", 1, True),
    (1.002, "1", False),
    ("nan", "nan", False),
    ("20250105", "January 5, 2025", True),
    ("5 Jan 2025", "01/05/2025", True),
    ("13/1/2025", "2025-01-13", True),
    ("Mon, 6 January 2025", "2025-01-06", True),
    ("2025-01-05T10:30:00Z", "2025-01-05 11:30+01:00", True),
    ("2025-01-05T10:30:00Z", "2025-01-05 10:30", False),
    ("2025-01-05T00:00:00", "2025-01-05", True),
    ("10:30 pm", "22:30", True),
    ("2025-01-05 at 10:30", "20250105T103000", True),
    ("25-03", "25-03", None),
    ("the 5th of May 2025", "2025-05-05", None),
    ("5th of May 2025", "2025-05-05", True),
    ("9 am", "09:00", True),
    ("May", "May 1", False),
    ("2025-02-30", "2025-02-30", None),
    ("apple", "zebra", None),
    ("2025-01-05", "apple", None),
    (["2025-01-05"], "2025-01-05", None),
    *[
        (row["actual"], row["expected"], row["match"] if row["converted"] else None)
        for row in rows("compare_as_date_or_number.json")
    ],
]


@pytest.mark.parametrize(("actual", "expected", "same"), COMPARED, ids=str)
def test_dates_and_numbers_are_compared(actual: Any, expected: Any, same: bool | None) -> None:
    assert compare_as_date_or_number(actual, expected) is same


def a_load(name: str, ok: bool, **more: Any) -> Any:
    goal = {"type": "text", "name": "g", "response": "Hi"}
    dataset = {"story": "s", "goals": {"g": []}, "goal_details": [goal], **more}
    return {"id": name, "dataset": dataset, "expected": {"ok": ok}}


LOADS = [
    a_load("no agent, no starting sentence", True),
    a_load("fields that nobody knows", True, mine_fields=[], other=1),
    a_load("prompts that are no texts", False, user_prompts=[1]),
    a_load("no story", False, story=""),
    a_load("null for nothing after a goal", True, goals={"g": None}),
    a_load("a goal that nobody describes, as a text", False, goals={"g": "g2"}),
    a_load("a text for what comes after", True, goals={"g": "g"}),
    a_load("no text for what comes after", True, goals={"g": ""}),
    a_load("an attack without instructions", False, attack_data={"attack_category": "on_policy"}),
    a_load("a file that is no object", False, file_upload="x"),
    a_load("a tag for tags", True, tags="hard"),
    a_load("a call of nobody knows what", True, goal_details=[{"type": "tool_call", "name": "g"}]),
    a_load("an empty name", True, dataset_name=""),
    a_load(
        "a number for a keyword", True, goal_details=[{"type": "text", "name": "g", "keywords": [5, "a"]}]
    ),
    a_load("goals that run in a circle", True, goals={"g": ["g"]}),
    a_load("a goal that nobody describes", False, goals={"g": ["h"]}),
    a_load(
        "a check with a name",
        False,
        goal_details=[{"type": "assert_llm", "kind": "policy", "check": "c", "name": "n"}],
    ),
    *rows("load.json"),
]


def is_read(row: Any) -> bool:
    """As there; but for lists of datasets, and what the original reads and then crashes at."""
    dataset = row["dataset"]
    if isinstance(dataset, list):
        return True
    crashes = any(map(lacks_a_tool, dataset.get("goal_details") or ()))
    return bool(row["expected"]["ok"]) and not crashes


@pytest.mark.parametrize("row", LOADS, ids=lambda row: row["id"])
def test_the_same_datasets_are_read(row: Any) -> None:
    document = parse_json(json.dumps(row["dataset"]).encode(), "vector.json")

    if is_read(row):
        assert OrchestrateFormat().read_eval_set(document).cases
    else:
        with pytest.raises(InvalidInputError):
            OrchestrateFormat().read_eval_set(document)


def test_every_real_dataset_loads_or_says_why_not() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus/wxo").glob("*.json")) if folder else []:
        if path.name in REFUSED:
            with pytest.raises(InvalidInputError, match=REFUSED[path.name]):
                load_eval_sets([path.name], plugin_registry.get_formats(), folder=path.parent)
        else:
            (eval_set,) = load_eval_sets([path.name], plugin_registry.get_formats(), folder=path.parent)
            assert all(case.journey and (case.turns or case.scenario) for case in eval_set.cases), path.name


def test_every_real_recording_is_read() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus/wxo/results").rglob(f"*{ENDING}")) if folder else []:
        turns = read_conversation(read_json(path, path.name))

        assert turns, path.name
        assert any(turn.expected.tool_calls for turn in turns), path.name
        assert all(call.name for turn in turns for call in turn.expected.tool_calls), path.name
