import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core.types import (
    AgentInfo,
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    MetricComparison,
    MetricSummary,
    ModelUsage,
    Quarantine,
    Record,
    RunMetric,
    ToolCall,
    TurnMetric,
    TurnResult,
    Verdict,
)
from evalgate.reporting.comment.reporter import MOST_BYTES, CommentReport, escape_prose
from evalgate.reporting.html.reporter import HtmlReport
from tests.builders import RESPONSE, TRAJECTORY, a_case_result, a_record, a_reply, a_run_result, a_summary
from tests.core.test_sanitize import MARKDOWN, tokens_of
from tests.situations import GOLDEN, HOSTILE, huge

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60) | st.text(
    "`|\\*_[]()<>!-@#:/ \n\t~$&;1.=+xw"
)
TEMPLATES = Path(__file__).parents[2] / "evalgate" / "reporting" / "templates"


def comment_of(record: Record) -> str:
    return CommentReport().render(record)


def a_hostile_record(text: str) -> Record:
    """A record with the text wherever an agent, an eval set or a metric can write."""
    expected = a_reply(text, ToolCall(text, {text: text}))
    actual = a_reply(f"{text}.", ToolCall(text, {text: f"{text}."}))
    turn = TurnResult(text, expected, actual, (TurnMetric(text, 0.0, "failed", text),))
    wrong = a_run_result(turn, metrics=(RunMetric(text, 0.0, "failed", text),))
    crash = a_run_result(turn, outcome="crashed", failure=Failure(text, text, text))
    metrics = (CaseMetric(text, 0.0, 1.0, "failed", text),)
    cases = [
        a_case_result(f"{text}{at}", "failed", eval_set_id=text, metrics=metrics, runs=(run,), path=text)
        for at, run in enumerate([wrong, crash] * 7)
    ]
    record = a_record(
        *cases,
        verdict=Verdict("fail", 1, (text, text)),
        metrics=(replace(a_summary(text, 0.0, status="failed"), eval_sets=(text, text)),),
        comparison=Comparison(
            text, text, text, (CaseChange(text, f"{text}0", "newly_failing"),), version=text, branch=text
        ),
        notices=(text,),
    )
    return replace(record, agent=AgentInfo(text, text), created_at=text, evalgate_version=text)


def shape(markdown: str) -> list[str]:
    """The kinds of block in the comment, in order; how many fences or items a text fills is left out."""
    return [token.type for token in MARKDOWN.parse(markdown)]


@settings(max_examples=60, deadline=None)
@given(ANYTHING)
def test_no_text_changes_the_comment_around_it(text: str) -> None:
    rendered = comment_of(a_hostile_record(text))
    found = tokens_of(rendered)
    html = "\n".join(token.content for token in found if token.type.startswith("html"))
    assert rendered.startswith("<!-- evalgate:v1 key=default -->\n")
    assert rendered.count("<!--") == 1
    assert not [token for token in found if token.type in {"link_open", "image", "em_open", "s_open", "hr"}]
    assert set(re.findall(r"</?[a-z]+", re.sub(r"<!--.*?-->", "", html))) <= {
        f"{slash}{tag}" for slash in ("<", "</") for tag in ("details", "summary", "code", "b", "sub", "span")
    }
    assert html.count("<details") == html.count("</details>")
    assert [token.type for token in found].count("heading_open") == 2
    assert [token.type for token in found].count("table_open") == 1


@settings(max_examples=60, deadline=None)
@given(ANYTHING)
def test_no_user_or_issue_is_mentioned_outside_of_code(text: str) -> None:
    found = tokens_of(comment_of(a_hostile_record(f"@octocat {text} #12")))
    prose = "".join(token.content for token in found if token.type.startswith("text"))
    assert not re.search(r"[@#](?!\u200b)|://|www\.", prose.replace("#### ", ""), re.IGNORECASE)
    html = "".join(token.content for token in found if token.type == "html_block")
    assert "@" not in re.sub(r"<code>.*?</code>", "", html)


@pytest.mark.parametrize("situation", GOLDEN.values(), ids=list(GOLDEN))
def test_every_metric_row_has_as_many_cells_as_the_header(situation: object) -> None:
    assert callable(situation)
    kinds = shape(comment_of(situation()))
    rows, columns = kinds.count("tr_open") - 1, kinds.count("th_open")
    assert columns in {0, 7, 8}
    assert kinds.count("td_open") == rows * columns


def test_a_huge_run_fits_and_says_what_is_left_out() -> None:
    text = comment_of(huge())
    assert len(text.encode()) <= MOST_BYTES
    assert "#### Failing cases (50,000)" in text
    assert text.count("<details open>") == 3
    assert re.search(r"… and 49,9[0-9]{2} more failing cases: see `results.json`\.", text)
    assert "newly failing: `travel/case_0`, " in text
    assert "… and 49,990 more\n" in text


@pytest.mark.parametrize(
    "text", ["\U0001f600" * 3000, "|" * 3000, "$" * 3000, "`" * 3000, "<" * 3000, "\n" * 3000]
)
def test_long_text_of_any_kind_fits(text: str) -> None:
    record = a_hostile_record(text)
    many = replace(
        record,
        verdict=Verdict("fail", 1, (text,) * 100),
        metrics=record.metrics * 200,
        notices=(text,) * 100,
        cases=record.cases * 20,
    )
    assert len(comment_of(many).encode()) <= MOST_BYTES


def test_details_are_cut_before_cases() -> None:
    long = "word " * 400
    names = "abcdefghijkl"  # a cause of its own for each case
    turn = TurnResult(
        long,
        a_reply("\n".join([long] * 12), *[ToolCall(f"a{at}", {"x": long}) for at in range(9)]),
        a_reply("y"),
    )
    cases = [
        a_case_result(
            f"case_{at}",
            "failed",
            metrics=tuple(CaseMetric(f"metric_{no}", 0.0, 1.0, "failed", name + long) for no in range(8)),
            runs=(a_run_result(turn),),
        )
        for at, name in enumerate(names)
    ]
    text = comment_of(a_record(*cases, verdict=Verdict("fail", 1)))
    assert len(text.encode()) <= MOST_BYTES
    assert all(f"case_{at}" in text for at in range(12))


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        (Verdict("pass", 0, ("All 2 cases passed.",)), "### ✅ Gate open: All 2 cases passed\n"),
        (Verdict("fail", 1, ("m is 0.5.", "n fell.")), "### ❌ Gate closed: m is 0.5\n\nn fell.\n"),
        (Verdict("fail", 1, ("a.", "b.", "c.")), "### ❌ Gate closed: a\n\n- b.\n- c.\n"),
        (Verdict("error", 3, ("x" * 161,)), f"### ⚠️ No verdict\n\n{'x' * 161}\n"),
        (
            Verdict("fail", 1, (f"The mean fell 0.2. {'x' * 150}. End.", "b.")),
            f"### ❌ Gate closed: The mean fell 0.2\n\n- {'x' * 150}. End.\n- b.\n",
        ),
        (Verdict("inconclusive", 4), "### ⚠️ Inconclusive\n\n|"),
    ],
)
def test_the_verdict_comes_first(verdict: Verdict, headline: str) -> None:
    text = comment_of(a_record(a_case_result(), verdict=verdict))
    assert text.startswith(f"<!-- evalgate:v1 key=default -->\n{headline}")


@pytest.mark.parametrize(
    ("score", "threshold", "baseline", "delta", "cells"),
    [
        (0.7999999, 0.8, None, None, "0.7999999 | 0.80 | – | –"),
        (0.9999, 1.0, None, None, "0.9999 | 1.00 | – | –"),
        (0.7249, 0.725, None, None, "0.7249 | 0.725 | – | –"),
        (0.8004, 0.8, 0.8004, 0.0, "0.8004 | 0.80 | 0.8004 | ±0.00"),
        (0.9, 0.8, 0.9, 0.0, "0.90 | 0.80 | 0.90 | ±0.00"),
        (0.9, 0.8, 0.9, -0.0, "0.90 | 0.80 | 0.90 | ±0.00"),
        (0.9, 0.8, 0.9001, -0.0001, "0.9000 | 0.80 | 0.9001 | −0.0001"),
        (0.998, 0.9, 1.0, -0.002, "0.998 | 0.90 | 1.000 | −0.002"),
        (0.9, 0.8, 0.4, 0.5, "0.90 | 0.80 | 0.40 | +0.50"),
        (None, 0.8, 0.4, None, "– | 0.80 | 0.40 | –"),
    ],
)
def test_numbers_never_contradict_the_verdict(
    score: float | None, threshold: float, baseline: float | None, delta: float | None, cells: str
) -> None:
    summary = a_summary(TRAJECTORY, score, threshold, baseline=baseline, delta=delta)
    assert f"| `{TRAJECTORY}` | {cells} | 1 |" in comment_of(a_record(a_case_result(), metrics=(summary,)))


def test_the_newly_failing_come_first() -> None:
    text = comment_of(GOLDEN["regression"]())
    assert text.index("<summary>❌ <code>travel/paris") < text.index("<summary>❌ <code>travel/rome")


def test_no_command_is_offered_that_a_shell_would_misread() -> None:
    quoted = comment_of(a_record(a_case_result("it's; rm -rf /", "failed"), verdict=Verdict("fail", 1)))
    assert (
        """evalgate run 'evals/travel.evalset.json:it'"'"'s; rm -rf /' --agent replay:results.json"""
        in quoted
    )
    for eval_id in ("new\nline", "hidden\u202e", "\x1b[0m"):
        assert "evalgate run" not in comment_of(a_record(a_case_result(eval_id, "failed")))


@pytest.mark.parametrize(
    ("key", "marker"),
    [
        ("suite-a/linux", "suite-a/linux"),
        ("x --> <b>", "x-b-"),
        ("a--b", "a-b"),
        ("a-----b", "a-b"),
        ("", "default"),
    ],
)
def test_a_key_cannot_end_the_marker(key: str, marker: str) -> None:
    first = CommentReport(key).render(a_record(a_case_result())).splitlines()[0]
    assert first == f"<!-- evalgate:v1 key={marker} -->"


@pytest.mark.parametrize("situation", ["regression", "crash_and_timeout"])
def test_each_failing_case_has_the_command_that_runs_it_alone(situation: str) -> None:
    text = comment_of(GOLDEN[situation]())
    assert text.count("Run this case alone:") == len(re.findall(r"<summary>. <code>", text)) > 0


def test_a_case_judged_by_a_model_is_not_called_offline() -> None:
    judged = replace(a_run_result(), judge=ModelUsage(calls=3))
    text = comment_of(a_record(a_case_result("paris", "failed", runs=(judged,))))
    assert "offline" not in text
    assert "the judge is asked what the cache does not know:\n\n```sh\nevalgate run " in text


def test_a_quarantined_case_is_not_still_failing() -> None:
    case = replace(a_case_result("paris", "failed"), quarantine=Quarantine("anna", "flaky", "2027-01-01"))
    text = comment_of(a_record(case, comparison=Comparison("b.json", unchanged=1)))
    assert "still failing" not in text
    assert "`travel/paris` failed, until 2027-01-01, anna: flaky" in text


def test_a_delta_that_counts_crashes_is_explained() -> None:
    judgement = MetricComparison("fail", "average_fell", (), 0.02)
    crashed = replace(
        a_summary(TRAJECTORY, 1.0, 0.9, "failed", n=4, errors=1, baseline=1.0, delta=-0.25, compared=4),
        judgement=judgement,
    )
    case = a_case_result("paris", "errored", runs=(a_run_result(outcome="crashed"),))

    def comment(*metrics: MetricSummary, cases: tuple[CaseResult, ...] = (case,)) -> str:
        return comment_of(a_record(*cases, metrics=metrics, comparison=Comparison("b.json")))

    explained = "count a crash or timeout as the worst score; the score leaves its case out."
    assert f"The baseline and Δ {explained}" in comment(crashed)
    # The same cases crashed before: nothing changed, and yet the score is higher than the baseline.
    assert f"The baseline and Δ {explained}" in comment(replace(crashed, score=0.5, baseline=0.25, delta=0.0))
    assert explained not in comment(crashed, cases=(a_case_result("paris", "failed"),))
    # Without statistics, and in metrics that are only reported, the difference leaves such runs out.
    reported = replace(crashed, name=RESPONSE, judgement=None, gates=False)
    assert explained not in comment(reported)
    assert f"The baseline and Δ of gating scores {explained}" in comment(crashed, reported)
    allowed = replace(crashed, judgement=replace(judgement, max_drop=None))
    assert explained not in comment(allowed)


def test_a_metric_that_broke_has_no_score_to_compare() -> None:
    broke = (CaseMetric(RESPONSE, None, 0.8, "errored", "the judge is down"),)
    failed = [a_case_result(f"oslo {at}", "failed", runs=(a_run_result(run=at),)) for at in range(3)]
    record = a_record(*failed, a_case_result("paris", "errored", metrics=broke))
    assert f"<code>{RESPONSE}</code> could not be evaluated" in comment_of(record)
    page = HtmlReport().render(record)
    assert f'<span class="why">{RESPONSE} could not be evaluated</span>' in page
    assert "– of 0.80" not in comment_of(record) + page


def test_noise_has_the_digits_of_the_delta_and_is_never_zero() -> None:
    judgement = MetricComparison("pass", "no_sign", (), 0.02, noise=0.00019)
    metric = replace(a_summary(score=0.9, baseline=0.902, delta=-0.002, compared=1), judgement=judgement)
    text = comment_of(a_record(metrics=(metric,), comparison=Comparison("b.json")))
    assert "| −0.002 ±\N{NO-BREAK SPACE}0.0002 |" in text


def test_cases_that_were_not_evaluated_are_grouped_by_reason() -> None:
    def case(name: str, why: str) -> CaseResult:
        metrics = (CaseMetric(TRAJECTORY, None, 1.0, "not_evaluated", why),)
        return a_case_result(name, "not_evaluated", metrics=metrics)

    many = [case(f"case_{at}", "it expects no tool call") for at in range(12)]
    text = comment_of(a_record(*many, case("odd", "it has no turn"), a_case_result("good")))
    assert "`travel/case_9` … and 2 more: it expects no tool call\n" in text
    assert "- `travel/odd`: it has no turn\n" in text
    assert "travel/good" not in text


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("got `pay(all=1)` twice", "got `pay(all=1)` twice"),
        ("`a` and `b|c`.", "`a` and `b❘c`."),
        ("one ` alone", "one \\` alone"),
        ("``two`` and `a``b`", "\\`\\`two\\`\\` and \\`a\\`\\`b\\`"),
        ("`@octocat` and @octocat", "`@octocat` and @\N{ZERO WIDTH SPACE}octocat"),
    ],
)
def test_text_in_backticks_is_code(sentence: str, shown: str) -> None:
    assert escape_prose(sentence) == shown


def test_a_green_comment_is_short() -> None:
    assert len(comment_of(GOLDEN["green"]()).splitlines()) < 12


def test_hostile_text_is_still_readable_where_it_matters() -> None:
    assert HOSTILE.split("\n")[0].split("<!--")[0].removeprefix("\x1b[31mred\x1b[0m ") in comment_of(
        GOLDEN["hostile"]()
    )
