"""Results of tRPC-Agent-Go as recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.replay import extract_record_recordings
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Failure, Record, Reply, ToolCall, ToolResult
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.recordings import read_recording
from evalgate.integrations.trpc.results import TrpcResultsFormat
from tests.conformance import shared_folder

TURN = {
    "actualInvocation": {
        "userContent": {"role": "user", "content": "2 + 3?"},
        "finalResponse": {"role": "assistant", "content": "5"},
        "tools": [{"id": "t", "name": "add", "arguments": {"a": 2}, "result": 5}],
    },
    "evalMetricResults": [],
}
REPLY = Reply("5", (ToolCall("add", {"a": 2}, "t"), ToolResult("add", 5, "t")))
RESULTS = {
    "evalSetResultId": "r",
    "evalSetId": "s",
    "evalCaseResults": [
        {"evalId": "c", "runId": 2, "errorMessage": "inference eval case: boom", "finalEvalStatus": "failed"},
        {"evalId": "c", "runId": 1, "evalMetricResultPerInvocation": [TURN]},
        {"evalId": "d", "runId": 1},
    ],
}
OLD = {
    "eval_set_id": "s",
    "eval_case_results": [
        {
            "eval_id": "c",
            "final_eval_status": 1,
            "eval_metric_result_per_invocation": [
                {
                    "actual_invocation": {
                        "user_content": {"parts": [{"text": "2 + 3?"}]},
                        "final_response": {"parts": [{"text": "5"}]},
                        "intermediate_data": {"tool_uses": [{"name": "add", "args": {"a": 2}}]},
                    }
                }
            ],
        }
    ],
}


def read(folder: Path, content: Any) -> Record:
    path = folder / "r.evalset_result.json"
    path.write_text(json.dumps(content))
    recording = read_recording(path, path.name)
    assert isinstance(recording, Record)
    return recording


def test_every_run_is_replayed_and_a_failed_one_is_a_crash(tmp_path: Path) -> None:
    recordings = extract_record_recordings(read(tmp_path, RESULTS))

    first, second = recordings["s", "c"]
    assert first.replies == (REPLY,)
    assert first.questions == ("2 + 3?",)
    assert (second.replies, second.outcome) == ((), "crashed")
    assert second.failure == Failure("recorded", "inference eval case: boom")
    (lost,) = recordings["s", "d"]
    assert lost.failure == Failure("recorded", "the results hold no conversation of this case")


def test_the_first_release_wrote_one_json_text(tmp_path: Path) -> None:
    (recording,) = extract_record_recordings(read(tmp_path, json.dumps(OLD)))["s", "c"]

    assert recording.replies == (Reply("5", (ToolCall("add", {"a": 2}, "1"),)),)


@pytest.mark.parametrize("content", [{"evalSetId": "s", "evalCases": []}, [], "text", "{", 7])
def test_a_file_without_results_is_not_recognised(content: Any) -> None:
    assert not TrpcResultsFormat().matches_document(parse_json(json.dumps(content).encode(), "r.json"))


def test_a_problem_is_reported_with_its_position(tmp_path: Path) -> None:
    broken = {"evalSetId": "s", "evalCaseResults": [{"runId": "1"}]}

    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path, broken)
    assert [str(problem) for problem in caught.value.problems] == [
        "r.evalset_result.json:1:40: `evalCaseResults[0].evalId` is missing",
        "r.evalset_result.json:1:50: `evalCaseResults[0].runId` must be a whole number, not '1'",
    ]


def test_real_results_hold_conversations() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus").glob("trpc*/*.evalset_result.json")) if folder else []:
        recording = read_recording(path, path.name)

        assert isinstance(recording, Record)
        for runs in extract_record_recordings(recording).values():
            assert all(run.replies and any(run.replies) for run in runs), path.name
