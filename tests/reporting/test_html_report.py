"""`report.html`: what it shows, that no text becomes an element, and its size."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from evalgate.core.score_ranges import BUDGET_RANGE, UNIT_RANGE, Range
from evalgate.core.types import (
    Attempt,
    CaseComparison,
    CaseMetric,
    CaseResult,
    Failure,
    Message,
    ModelUsage,
    Record,
    RunMetric,
    SamplingCost,
    ToolCall,
    ToolResult,
    TurnMetric,
    Usage,
    Verdict,
)
from evalgate.reporting.html import reporter
from evalgate.reporting.html.reporter import LIMIT
from evalgate.reporting.html.reporter import HtmlReport as Report
from evalgate.reporting.terminal import TerminalReport
from tests.builders import (
    RESPONSE,
    TRAJECTORY,
    a_case_result,
    a_record,
    a_reply,
    a_run_result,
    a_summary,
    a_turn_result,
)
from tests.reporting.html_pages import MARKS, WORDS, Page, unseen_spelled_out
from tests.reporting.test_hostile_laws import ATTACKS, PIECES, attacked
from tests.situations import GOLDEN, flaky_runs, huge, regression

SITUATIONS: dict[str, Callable[[], Record]] = {**GOLDEN, "flaky": flaky_runs}
OPINIONS = (
    {
        "sample": 1,
        "score": 0.0,
        "reason": "the numbers differ",
        "text": "VERDICT: no",
        "model": "m",
        "attempts": 2,
    },
    {"sample": 2, "score": None, "failure": "outage", "reason": "no answer", "cached": True},
)


def test_templates_call_safe_only_what_a_macro_returns() -> None:
    folder = Path(reporter.__file__).parents[1] / "templates"
    marked = [
        part
        for path in folder.glob("*.html.j2")
        for part in re.findall(r"{{[^{}]*safe[^{}]*}}", path.read_text())
    ]
    macros = "control_table|difference|graph|named|open_steps|opinions|run_body|scored|spoken|step_line|title|turn_body"
    assert len(marked) > 10
    assert [
        part
        for part in marked
        if not re.fullmatch(rf"{{{{ ({macros})\([^|]*(\|short)?[^|]*\)(\|trim)?\|safe }}}}", part)
    ] == []


def page_of(record: Record) -> Page:
    return Page(Report().render(record))


def judged() -> Record:
    """A case with everything that a run can hold."""
    reply = a_reply(
        "It is sunny.",
        Message("Let me look.", "planner"),
        ToolCall("get_weather", {"city": "Paris"}, author="planner"),
        ToolResult("get_weather", {"sky": "clear"}),
        ToolResult("get_weather", "as text"),
    )
    details = {
        "samples": OPINIONS,
        "agreement": 0.5,
        "rubrics": [{"id": "polite", "text": "It thanks.", "score": 1.0}],
    }
    scored = TurnMetric(RESPONSE, 0.0, "failed", "2 of 3 samples say so", {**details, "seen": [1, 2]})
    run = replace(
        a_run_result(a_turn_result("Weather?", a_reply("It rains."), reply, (scored,))),
        usage=Usage(120, 30, 0.0021),
        user_usage=Usage(7, 5),
        judge=ModelUsage(3, 300, 40, 0.01),
        final_state={"city": "Paris"},
        earlier_attempts=(
            Attempt("crashed", Failure("exited", "the worker died", "Segmentation fault"), 0.25),
        ),
    )
    metrics = (CaseMetric(RESPONSE, 0.0, 0.8, "failed", "2 of 3 samples say so"),)
    return a_record(
        a_case_result("paris", "failed", metrics=metrics, runs=(run,)), verdict=Verdict("fail", 1, ("No.",))
    )


@pytest.mark.parametrize("situation", [*SITUATIONS.values(), judged], ids=[*SITUATIONS, "judged"])
def test_the_page_contains_known_elements_only(situation: Callable[[], Record]) -> None:
    page = page_of(situation())
    targets = {value for _, name, value in page.attributes if name == "id"}
    links = {value for tag, name, value in page.attributes if (tag, name) == ("a", "href")}
    assert {link.removeprefix("#") for link in links} <= targets
    names = [value for _, name, value in page.attributes if name in {"aria-labelledby", "for"}]
    assert set(names) <= targets
    assert page.shape.count("h1") == 1
    assert [tag for tag in page.shape if tag in {"header", "main", "footer"}] == ["header", "main", "footer"]


def test_the_page_runs_its_own_script_only_and_loads_nothing() -> None:
    html = Report().render(judged())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    (sheet,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    style, code = (
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (sheet, script)
    )
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{code}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"(?i)url\(|@import|//", sheet)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|eval|Function|fetch|import\b *[({]|https?:", script
    )
    rest = html.replace(sheet, "").replace(f"<script>{script}</script>", "")
    assert not re.search(r"(?i)<script|style=| on\w+=|src=|https?:", rest)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@example("".join(PIECES))
@example("</title></style><script>alert(1)</script>")
@example('" onload="x" \' <a href=javascript:x>')
@given(ATTACKS)
def test_any_text_is_shown_as_text(text: str) -> None:
    harmless = page_of(attacked("harmless"))
    page = page_of(attacked(text))

    assert set(page.shape) <= set(harmless.shape) | {"b", "/b"}
    attributes = {each for each in page.attributes if each[:2] != ("meta", "content")}
    ours = {("input", "placeholder", "names, questions, answers, tools")}
    for each in attributes - ours:
        _, name, value = each
        shape = MARKS if name in {"data-sort", "data-group"} else WORDS
        assert name == "content" or shape.fullmatch(value.removeprefix("#")), each
    # In the message of the user, which is not shortened.
    assert unseen_spelled_out(text) in page.texts


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
@given(ATTACKS)
def test_any_limit_is_kept(text: str) -> None:
    record = attacked(text)
    many = replace(record, cases=tuple(replace(record.cases[0], eval_id=f"{at}") for at in range(40)))
    assert len(Report(limit=150_000).render(many).encode()) <= 150_000


def test_chunks_join_to_the_whole_page() -> None:
    record = regression()
    assert "".join(Report().iter_chunks(record)) == Report().render(record) == Report().render(regression())


def test_newly_failing_cases_come_first() -> None:
    text = page_of(SITUATIONS["regression"]()).text
    places = [text.index(f"\ntravel/{name}\n", text.index("\nCases\n")) for name in ("paris", "rome", "oslo")]
    assert places == sorted(places)


def test_the_list_has_a_filter_for_each_kind() -> None:
    found = page_of(SITUATIONS["crash_and_timeout"]())
    assert {value for tag, name, value in found.attributes if (tag, name) == ("input", "id")} == {
        "search",
        "show-all",
        "show-crashed",
        "show-errored",
        "show-passed",
    }
    sheet = Report().render(a_record())
    for kind in ("new", "failed", "crashed", "errored", "flaky", "quarantined", "not-evaluated", "passed"):
        assert f".cases:has(#show-{kind}:checked) > .case:not(.{kind})" in sheet


@pytest.mark.parametrize(
    "text",
    [
        "Simulated user",
        "Agent (planner)",
        "Tool call (planner)",
        '{"city": "Paris"}',
        '{"sky": "clear"}',
        "as text",
        "It rains.",
        "Let me look.",
        "120 + 30 tokens, 0.0021 USD",
        "simulated user: 7 + 5 tokens",
        "3 judge calls (340 tokens, $0.01), 0 spared by the cache",
        "2 answers, the judge agrees with itself 0.50",
        "the numbers differ",
        "VERDICT: no",
        "· 2 attempts",
        "· from the cache",
        "no answer",
        "It thanks.",
        '{"seen": [1, 2]}',
        "Segmentation fault",
        "An earlier attempt crashed after 250 ms: the worker died.",
        "evalgate run evals/travel.evalset.json:paris --agent replay:results.json",
    ],
)
def test_a_run_is_shown_whole(text: str) -> None:
    assert text in page_of(judged()).text


def test_the_first_divergence_is_marked_in_each_comparison() -> None:
    html = Report().render(regression())
    # paris differs from its baseline in words alone, so its calls are shown once
    assert html.count('<div class="part">first divergence</div>') == 2
    assert "Response, baseline (−) and now (+)" in page_of(regression()).text.replace("\n", "")


def test_a_turn_without_expectation_has_no_comparison() -> None:
    run = a_run_result(a_turn_result("Hi", a_reply(None), a_reply("Hello", ToolCall("look"))))
    assert "expected (−)" not in Report().render(a_record(a_case_result(runs=(run,))))


def test_long_texts_and_conversations_are_cut_with_a_notice() -> None:
    turns = [a_turn_result(f"turn {at}", a_reply("x" * 40_000)) for at in range(30)]
    run = a_run_result(*turns, metrics=(RunMetric(TRAJECTORY, 1.0, "passed"),))
    case = a_case_result(runs=tuple(replace(run, run=number) for number in range(1, 9)))
    text = page_of(a_record(case)).text
    assert "25,000 more characters: see results.json" in text
    assert re.search(r"\d+ more turns: see results.json", text)
    assert re.search(r"\d+ more runs: see results.json", text)


def test_a_huge_page_keeps_its_limit_and_counts_what_is_left_out() -> None:
    html = Report().render(huge(20_000))
    assert len(html.encode()) < LIMIT
    counts = re.search(
        r"Of 20,000 cases, the (\d+) most important are shown in full, ([\d,]+) more by name", html
    )
    assert counts is not None
    assert html.count('<details class="case ') == int(counts[1]) > 300
    assert html.count('<div class="case ') == int(counts[2].replace(",", "")) > 1500
    assert "All <b>20,000</b>" in html


def test_a_small_run_is_shown_whole() -> None:
    html = Report().render(flaky_runs())
    assert html.count('<details class="case ') == 2
    assert "results.json, next to this page" not in html


@pytest.mark.parametrize(
    "value", [float("nan"), 10**5000, {1: {2: "\ud800"}}, [[[]]] * 3], ids=["nan", "long", "keys", "lists"]
)
def test_values_that_json_cannot_hold_are_shown(value: object) -> None:
    run = a_run_result(a_turn_result("Hi", a_reply(), a_reply("ok", ToolResult("t", value))))
    assert "Result" in page_of(a_record(a_case_result(runs=(run,)))).text


def test_a_result_that_is_nested_too_deep_is_shown() -> None:
    deep: object = "end"
    for _ in range(5_000):
        deep = [deep]
    run = a_run_result(a_turn_result("Hi", a_reply(), a_reply("ok", ToolResult("t", deep))))
    assert "nested too deep" in page_of(a_record(a_case_result(runs=(run,)))).text


def test_a_record_without_cases_has_a_page() -> None:
    assert "No case was run." in page_of(replace(a_record(), metrics=(), cases=())).text


def _anchors(html: str) -> dict[str, str]:
    """Return the anchor of each case that is shown in full, by name."""
    cases = html.split('<details class="case ')[1:]
    return {
        re.findall(r"<code>(.*?)</code>", case)[0]: re.findall(r'id="(case-[^"]*)"', case)[0]
        for case in cases
    }


def test_an_anchor_stays_when_other_cases_come_and_go() -> None:
    record = regression()
    before, after = (
        _anchors(Report().render(record)),
        _anchors(Report().render(replace(record, cases=record.cases[1:]))),
    )
    assert after == {name: anchor for name, anchor in before.items() if name in after}
    assert len(set(before.values())) == len(record.cases)


def test_of_two_cases_with_one_name_the_first_is_linked() -> None:
    one: CaseResult = regression().cases[2]
    html = Report().render(replace(regression(), cases=(one, one)))
    first, second = re.findall(r'id="(case-[^"]*)"', html)
    assert second == f"{first}-2"
    assert f'href="#{first}"' in html
    assert f'href="#{second}"' not in html


def test_text_in_backticks_is_code_and_long_names_break_between_words() -> None:
    html = Report().render(replace(regression(), notices=("Save one with `evalgate baseline save`.",)))
    assert "Save one with <code>evalgate baseline save</code>." in html
    assert "tool_<wbr>trajectory_<wbr>avg_<wbr>score" in html


def test_a_score_of_a_run_or_turn_does_not_look_equal_to_the_threshold_that_it_misses() -> None:
    turn = replace(a_turn_result(), metrics=(TurnMetric(RESPONSE, 0.79996, "failed"),))
    runs = tuple(
        a_run_result(turn, run=number, metrics=(RunMetric(RESPONSE, 0.79996, "failed"),)) for number in (1, 2)
    )
    metrics = (CaseMetric(RESPONSE, 0.79996, 0.8, "failed"),)
    page = page_of(a_record(a_case_result("paris", "failed", metrics=metrics, runs=runs)))
    assert page.texts.count("0.79996") == 5  # of the case, and of each run and turn


def test_the_sort_keys_are_the_mean_time_and_the_cost_of_agent_user_and_earlier_attempts() -> None:
    attempt = Attempt("crashed", Failure("exited", "gone"), 9.0, Usage(1, 1, 0.25))
    runs = (
        replace(a_run_result(duration_s=1.0), usage=Usage(1, 1, 1.0), user_usage=Usage(1, 1, 0.5)),
        replace(a_run_result(run=2, duration_s=2.0), earlier_attempts=(attempt,)),
    )
    text = Report().render(a_record(a_case_result(runs=runs)))
    assert 'data-sort="1.5;1.75;1"' in text
    only_user = replace(a_run_result(), user_usage=Usage(1, 1, 0.5))
    assert "highest cost" in page_of(a_record(a_case_result(runs=(only_user,)))).texts


def test_the_reason_of_a_crash_is_not_repeated_for_each_metric() -> None:
    failure = Failure("exception", "the agent raised KeyError: 'name'")
    runs = tuple(a_run_result(run=number, outcome="crashed", failure=failure) for number in (1, 2))
    metrics = tuple(
        CaseMetric(name, None, 1.0, "errored", failure.message) for name in (RESPONSE, TRAJECTORY)
    )
    page = page_of(a_record(a_case_result("paris", "errored", metrics=metrics, runs=runs)))
    # In the list, as the reason of the case, and in each run.
    assert sum(failure.message in text for text in page.texts) == 4


def test_stored_runs_are_called_passed_only_if_all_scores_are_full_or_none() -> None:
    def show(mean: float, passed: int, score_range: Range = UNIT_RANGE) -> str:
        standing = CaseComparison("ok", 6, passed, mean, 3, 3, mean)
        metric = CaseMetric("m", mean, 3.0, "passed", standing=standing, range=score_range)
        page = page_of(a_record(a_case_result(metrics=(metric,))))
        return next(text for text in page.texts if text.endswith((" passed)", " runs)")))

    assert show(0.5, 3) == "0.50 (3 of 6 passed)"
    assert show(5.0, 6, Range(1.0, 5.0)) == "5.00 (6 of 6 passed)"
    assert show(4.2, 0, Range(1.0, 5.0)) == "4.20 (6 runs)"
    assert show(0.9, 0) == "0.90 (6 runs)"
    assert show(610.0, 6, BUDGET_RANGE) == "610 (6 runs)"


def test_a_long_reason_that_is_cut_ends_with_an_ellipsis() -> None:
    failure = Failure("exception", "no " * 200)
    run = a_run_result(outcome="crashed", failure=failure)
    html = Report().render(a_record(a_case_result("paris", "errored", runs=(run,))))
    assert html.partition('<span class="why">')[2].partition("</span>")[0].endswith("…")


def test_many_reasons_do_not_hide_the_metrics() -> None:
    reasons = tuple(f"case_{number} broke." for number in range(150))
    record = replace(a_record(a_case_result()), verdict=Verdict("fail", 1, reasons))
    top, _, folded = Report().render(record).partition('<details class="lead">')
    assert "case_10 broke." in top
    assert "case_11 broke." not in top
    assert folded.startswith("<summary>… and 139 more reasons</summary>")
    assert "case_100 broke." in folded
    assert "… and 49 more: see results.json" in folded
    lines = TerminalReport().render(record).splitlines()
    assert lines[-2:] == ["  case_9 broke.", "  … and 140 more reasons: see results.json"]


def test_the_order_by_a_budget_begins_with_the_highest_figure() -> None:
    case = replace(a_case_result(), metrics=(CaseMetric("budget/turns", 3, 5, "passed", range=BUDGET_RANGE),))
    summary = replace(a_summary("budget/turns", 3, 5), range=BUDGET_RANGE)
    assert "highest budget/turns" in page_of(a_record(case, metrics=(summary,))).texts


def test_replies_of_another_record_are_compared_with_those_of_passed_cases() -> None:
    case = a_case_result("paris", runs=(a_run_result(a_turn_result("Hi", a_reply(None), a_reply("Bye."))),))
    report = Report(earlier={case.key: (a_reply("Hello."),)})
    text = Page(report.render(a_record(case))).text
    assert "baseline (−) and now (+)" in text
    assert "Hello." in text
    assert "Hello." not in page_of(a_record(case)).text


def test_facts_show_code_as_code() -> None:
    page = Report().render(replace(regression(), effort=SamplingCost(9, 25, 16)))
    assert "16 saved by <code>runs: auto</code></li>" in page
