"""Answers that a judge judged: the texts that people see, and the draw."""

from dataclasses import replace

from evalgate.core.types import CaseMetric, RunMetric, ToolResult, TurnMetric
from evalgate.datasets.judged_answers import JudgedAnswer, list_judged_answers, sample_answers
from tests.builders import a_call, a_case_result, a_record, a_reply, a_run_result, a_turn_result

DETAILS = {
    "samples": [{"score": 1.0, "reason": "fine"}],
    "rubrics": [{"id": "r", "text": "It is polite.", "score": 1.0, "reason": "fine"}],
}


def test_turns_show_the_conversation_so_far_with_tool_calls_and_rubrics_without_verdicts() -> None:
    judged = TurnMetric("polite", 1.0, "passed", "fine", DETAILS)
    unjudged = TurnMetric("rouge", 1.0, "passed")
    turns = (
        a_turn_result(
            "Hi",
            actual=a_reply("Hello", a_call("look", city="Bonn"), ToolResult("look", 7)),
            metrics=(judged, unjudged),
        ),
        a_turn_result(
            "Thanks", actual=a_reply("Bye"), metrics=(replace(judged, score=0.0, status="failed"),)
        ),
    )
    run = a_run_result(
        *turns, metrics=(RunMetric("polite", 0.5, "failed"), RunMetric("rouge", 1.0, "passed"))
    )
    case = a_case_result(
        metrics=(CaseMetric("polite", 0.5, 1.0, "failed", fingerprint="f1"),), runs=(run, run)
    )

    first, second = list_judged_answers(a_record(case))

    assert (first.question, first.answer) == ("Hi", '[calls look({"city": "Bonn"})]\n[look returns 7]\nHello')
    assert (
        second.question
        == 'user: Hi\nagent: [calls look({"city": "Bonn"})]\n[look returns 7]\nHello\nuser: Thanks'
    )
    assert (first.passed, second.passed) == (True, False)
    assert first.asked == ("It is polite.",)
    assert first.fingerprint == "f1"


def test_a_metric_of_whole_conversations_gives_one_answer() -> None:
    run = a_run_result(
        a_turn_result("Hi", actual=a_reply("Hello")),
        a_turn_result("Thanks", actual=a_reply("Bye")),
        metrics=(
            RunMetric("check/polite", 1.0, "passed", details={"judged": [{"statement": "It is polite."}]}),
        ),
    )
    (found,) = list_judged_answers(a_record(a_case_result(runs=(run,))))

    assert (found.question, found.answer) == ("", "user: Hi\nagent: Hello\nuser: Thanks\nagent: Bye")
    assert found.asked == ("It is polite.",)


def an_answer(number: int, *, passed: bool) -> JudgedAnswer:
    return JudgedAnswer(str(number), "m", "f", "s:c", "q", "a", "", (), passed, number / 100)


def test_a_sample_takes_both_verdicts_and_all_scores() -> None:
    answers = [an_answer(number, passed=number >= 10) for number in range(100)]

    found = sample_answers(answers, 20, 0)
    passed = sorted(each.score for each in found if each.passed)

    assert len({each.answer_id for each in found}) == 20
    assert len(passed) == 10
    assert all(0.1 + 0.09 * at - 1e-9 <= score <= 0.1 + 0.09 * (at + 1) for at, score in enumerate(passed))
    assert found == sample_answers(answers, 20, 0) != sample_answers(answers, 20, 1)
    assert sum(each.passed for each in sample_answers(answers, 40, 0)) == 30, "only 10 failed"
    assert len(sample_answers(answers, 500, 0)) == 100
