"""Custom metrics as users write them, good and bad."""

import asyncio
import ctypes
import json
import os
import sys
import time
from types import SimpleNamespace
from typing import Any


def ours(case: Any, run: Any) -> Any:
    return 1.0 if run.replies[0].response == case.turns[0].expected.response else 0.0


def ours_with_reason(case: Any, run: Any, limit: int = 10) -> Any:
    long = len(run.replies[0].response)
    return {"score": float(long <= limit), "reason": f"{long} characters, {limit} allowed"}


def ours_with_a_document(case: Any, run: Any) -> Any:
    return {"score": 1.0, "reason": "x" * 50_000}


def scoreless(case: Any, run: Any) -> Any:
    return {"reason": "no idea"}


def gives(case: Any, run: Any, result: str = "") -> Any:
    return json.loads(result)


async def ours_later(case: Any, run: Any) -> Any:
    await asyncio.sleep(0.01)
    return run.replies[0].events[0].args["n"]


def brevity(actual_invocation: Any, expected_invocation: Any, criterion: Any) -> Any:
    """Return a score in the form of ADK's guide: a number for one turn."""
    if not actual_invocation.final_response:
        return 0.0
    text = "".join(part.text or "" for part in actual_invocation.final_response.parts or [])
    return 1.0 if len(text) <= criterion.limit else 0.0


async def adk(
    eval_metric: Any, actual_invocations: Any, expected_invocations: Any, conversation_scenario: Any
) -> Any:
    """Return a result in the form of Google ADK's code. A lower score is better, so it sets its own status."""
    assert eval_metric.threshold is None
    assert conversation_scenario is None
    calls = [len(each.intermediate_data.tool_uses) for each in actual_invocations]
    wanted = [len(each.intermediate_data.tool_uses) for each in expected_invocations]
    extra = float(sum(calls) - sum(wanted))
    status = SimpleNamespace(name="PASSED" if extra <= eval_metric.criterion.threshold else "FAILED")
    turns = [SimpleNamespace(score=float(count)) for count in calls]
    return SimpleNamespace(overall_score=extra, overall_eval_status=status, per_invocation_results=turns)


def not_evaluated(eval_metric: Any, actual_invocations: Any, expected_invocations: Any) -> Any:
    return SimpleNamespace(overall_score=None, overall_eval_status=3)


def events(
    eval_metric: Any, actual_invocations: Any, expected_invocations: Any, conversation_scenario: Any
) -> Any:
    """Check every attribute that an actual invocation has in Google ADK."""
    (one,) = actual_invocations
    assert one.user_content.parts[0].text == "How is the weather?"
    data = one.intermediate_data
    call, answer, said = [event.content.parts[0] for event in data.invocation_events]
    assert (call.function_call.name, call.function_call.args) == ("find", {"n": 3})
    assert answer.function_response.response == {"ok": True}
    assert (said.text, data.invocation_events[2].author) == ("wait", "helper")
    assert data.tool_uses[0].name == data.tool_responses[0].name == "find"
    assert data.intermediate_responses[0][1][0].text == "wait"
    return 1


def played(
    eval_metric: Any, actual_invocations: Any, expected_invocations: Any, conversation_scenario: Any
) -> Any:
    """Check the arguments for a conversation with a simulated user."""
    assert expected_invocations is None
    assert conversation_scenario.starting_prompt == "Hi"
    assert [each.user_content.parts[0].text for each in actual_invocations] == ["Hi", "For two."]
    return 1


def rubrics(eval_metric: Any, actual_invocations: Any, expected_invocations: Any) -> Any:
    """Check that rubrics of cases and turns are in the same attributes as in Google ADK."""
    (actual,), (expected,) = actual_invocations, expected_invocations
    told = [(each.rubric_id, each.rubric_content.text_property, each.type) for each in actual.rubrics]
    assert told == [("a", "Is kind.", None), ("b", "Is short.", "MINE")]
    assert [each.description for each in expected.rubrics] == ["why"]
    return 1


def raises(case: Any, run: Any) -> Any:
    raise KeyError("no such key")


def exits(case: Any, run: Any) -> Any:
    sys.exit(3)


def hangs(case: Any, run: Any) -> Any:
    time.sleep(600)


def dies(case: Any, run: Any) -> Any:
    ctypes.string_at(0)


def leaves(case: Any, run: Any) -> Any:
    os._exit(7)


def says_much(case: Any, run: Any) -> Any:
    sys.stdout.write("chatter " * 1000)
    return True


def nan(case: Any, run: Any) -> Any:
    return float("nan")


class ArrayFlag:
    """A boolean like those of numpy and torch, which is no `bool` and has its value in `item()`."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def item(self) -> bool:
        return self.value


def array_flags(case: Any, run: Any) -> Any:
    turns = [{"score": 1.0, "passed": ArrayFlag(True)}, {"score": 1.0, "passed": ArrayFlag(False)}]
    return {"score": 1.0, "passed": ArrayFlag(False), "turns": turns}


def even_turns(case: Any, run: Any) -> Any:
    return {"turns": [{"score": 0.8}] * 6}


def text_flag(case: Any, run: Any) -> Any:
    return {"score": 1.0, "passed": "false"}


def number_flag(case: Any, run: Any) -> Any:
    return {"turns": [{"score": 1.0, "passed": 0}]}


def huge(case: Any, run: Any) -> Any:
    return 10**400


def nothing(case: Any, run: Any) -> Any:
    return None


def text(case: Any, run: Any) -> Any:
    return "good"


def without_parameters() -> Any:
    return 1.0


number = 3


def explained(case: Any, run: Any, status: Any = "FAILED") -> Any:
    """Return every key that the result of an evaluator of tRPC-Agent-Go or adk-rs can have."""
    rubric = {"id": "polite", "score": 0.0, "reason": "no greeting"}
    turn = {
        "score": 0.5,
        "passed": False,
        "reason": "too curt",
        "details": {"words": 1},
        "rubric_scores": [rubric],
    }
    return {
        "score": 0.9,
        "status": status,
        "reason": "curt",
        "details": {"words": [1]},
        "turns": [turn, {"score": None, "reason": "nothing to judge"}],
    }


def explained_with_objects(
    eval_metric: Any, actual_invocations: Any, expected_invocations: Any, conversation_scenario: Any
) -> Any:
    rubric = SimpleNamespace(rubric_id="polite", score=1.0, rationale="greets")
    details = SimpleNamespace(reason="fine", score=1.0, rubric_scores=[rubric])
    turn = SimpleNamespace(score=1.0, eval_status=SimpleNamespace(name="PASSED"), details=details)
    return SimpleNamespace(overall_score=1.0, overall_status="passed", per_invocation_results=[turn])


def turns_only(case: Any, run: Any) -> Any:
    return {"turns": [{"score": 1.0, "reason": "good"}, {"score": 0.5, "reason": "half"}]}


def explained_turn(actual_invocation: Any, expected_invocation: Any, criterion: Any) -> Any:
    return {"score": 0.5, "passed": True, "reason": "half", "rubric_scores": [{"id": "a", "score": 0.5}]}


def failed_turn(actual_invocation: Any, expected_invocation: Any, criterion: Any) -> Any:
    return {"score": 1.0, "status": "failed"}


def plain_details(case: Any, run: Any) -> Any:
    return {"score": 1.0, "details": ["a"]}


def unreadable_details(case: Any, run: Any) -> Any:
    return {"score": 1.0, "details": {"x": object()}}


def turns_of_another_type(case: Any, run: Any) -> Any:
    return {"score": 1.0, "turns": "all"}


def reports_usage(case: Any, run: Any) -> dict[str, Any]:
    used = run.usage
    if used is None:
        return {"score": 1.0, "reason": "no usage"}
    tokens = f"{used.input_tokens} + {used.output_tokens} tokens of {', '.join(used.models)}"
    steps = [f"{each.name}: {each.duration_s} s, {each.usage.input_tokens} tokens" for each in run.trace]
    return {"score": 1.0, "reason": f"{tokens}, {used.cost_usd} USD, {run.duration_s} s; {', '.join(steps)}"}
