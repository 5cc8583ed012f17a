"""Rules that every report keeps, with any text anywhere in the record."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evalgate.core.sanitize import strip_invisible
from evalgate.core.types import (
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    FailureGroup,
    Quarantine,
    Record,
    RunMetric,
    ToolCall,
    TurnMetric,
    Verdict,
)
from evalgate.reporting.codequality import CodeQualityReport
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.report_files import ResultsJsonReport
from evalgate.reporting.terminal import TerminalReport
from tests.builders import (
    TRAJECTORY,
    a_case_result,
    a_record,
    a_reply,
    a_run_result,
    a_summary,
    a_turn_result,
)
from tests.gitlab.quickactions import quick_actions

PIECES = [
    "::set-output name=verdict::pass",
    "##[add-mask]e",
    "##vso[task.complete]",
    "##teamcity[x]",
    "\n",
    "\r",
    "\u2028",
    "\x85",
    " ",
    "```",
    "````",
    "/merge",
    "/close x",
    ">>>",
    "</details>",
    "<!-- evalgate:v1 gate=x -->",
    "<!--",
    "-->",
    "<script>",
    "![x](https://evil.example/?q)",
    "[l](javascript:x)",
    "https://evil.example",
    "www.evil.example",
    "@all",
    "#1",
    "!2",
    "~bug",
    "| a",
    "`",
    "\\",
    "\x1b[31m",
    "\x1b]8;;https://evil.example\x07",
    "\u202e",
    "\u2066",
    "\u200b",
    "\U000e0041",
    "\ud800",
    "\ufffe",
    "]]>",
    "[[ATTACHMENT|/etc/passwd]]",
    "../../etc/passwd",
    "\uff1c!--",
    "$x$",
    "w" * 600,
    "`" * 81,
    "`" * 256,
    "_www.evil.example",
    "\n# heading\n",
]
ATTACKS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join) | st.text(
    st.characters(exclude_categories=()), max_size=30
)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OURS = re.compile(r"</?(?:details|summary|code|sub|b|span)(?: open)?>|<!-- evalgate:v1 key=default -->")


def attacked(text: str) -> Record:
    """A record in which everything that can hold a text holds this one."""
    call = ToolCall(text, {text: [text, {text: text}]})
    turn = a_turn_result(
        text, a_reply(text, call), a_reply(text + "!", call, call), (TurnMetric(text, 0.0, "failed", text),)
    )
    runs = (
        a_run_result(turn, metrics=(RunMetric(text, 0.0, "failed", text),)),
        a_run_result(turn, run=2, outcome="crashed", failure=Failure("exception", text, f"{text}\n{text}")),
    )
    case = CaseResult(
        text, text, "failed", (CaseMetric(text, 0.0, 1.0, "failed", text),), runs, "f00d", text, 3
    )
    change = CaseChange(text, text, "newly_failing", "passed", "failed", (a_reply(text),))
    group = FailureGroup(
        f"no call of `{text}`", "missing_call", 1, ((text, text), (text, "2")), text, text, unprecedented=True
    )
    record = a_record(
        case,
        replace(a_case_result("quarantined", "failed"), quarantine=Quarantine(text, text, text)),
        verdict=Verdict("fail", 1, (text, f"It says: {text}")),
        metrics=(a_summary(text, 0.0, status="failed"), a_summary(TRAJECTORY)),
        comparison=Comparison(text, text, text, (change,)),
        notices=(text,),
    )
    return replace(record, failure_groups=(group,))


REPORTS: dict[str, Callable[[Record], str]] = {
    "comment": CommentReport().render,
    "comment of a fork": CommentReport(is_trusted=False, limit=4000).render,
    "JUnit": JUnitReport().render,
    "Code Quality": CodeQualityReport("sub").render,
    "terminal": TerminalReport().render,
    "terminal with details": TerminalReport(details=True).render,
    "page": HtmlReport().render,
}


@pytest.mark.parametrize("render", REPORTS.values(), ids=REPORTS)
@example("".join(PIECES))
@example("::a::\n/merge")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(ATTACKS)
def test_no_report_contains_commands_or_invisible_text(render: Callable[[Record], str], text: str) -> None:
    report = render(attacked(text))
    report.encode()
    assert strip_invisible(report.replace("\u200b", "")) == report.replace("\u200b", "")
    assert not re.search(r"(?m)^[^\S\n]*::", report)
    assert not re.search(r"(?i)##(\[|vso\[|teamcity\[)", report)


@pytest.mark.parametrize(
    "comment", [CommentReport(), CommentReport(is_trusted=False)], ids=["ours", "of a fork"]
)
@example("".join(PIECES))
@example("```\n/merge\n```\n<!-- evalgate:section key= run=9 attempt=9 -->")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(ATTACKS)
def test_a_comment_has_no_markup_of_others(comment: CommentReport, text: str) -> None:
    body = comment.render(attacked(text))
    tokens = [token for block in MARKDOWN.parse(body) for token in (block, *(block.children or []))]

    assert {token.type for token in tokens}.isdisjoint({"link_open", "image"})
    html = "".join(token.content for token in tokens if token.type.startswith("html"))
    # text in <code> is escaped; all other text between angle brackets is markup of the template
    assert re.findall(r"<[^>]*>", OURS.sub("", html)) == []
    assert body.count("<!--") == 1
    assert quick_actions(body) == []


@example("".join(PIECES))
@example("x" + "`" * 255 + " ![x](https://evil.example/x) www.evil.example")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(ATTACKS)
def test_github_renders_a_comment_without_markup_of_others(text: str) -> None:
    page = cmarkgfm.github_flavored_markdown_to_html(
        CommentReport().render(attacked(text)), Options.CMARK_OPT_UNSAFE
    )
    tags = set(re.findall(r"<([a-z]+\d?)", page))
    assert tags.isdisjoint({"a", "img", "script", "h1", "h2", "em", "del", "input", "hr"})
    assert page.count("<h4") == page.count("<h3") == 1
    assert page.count("<details") == page.count("</details>")


def test_the_label_of_a_group_in_the_record_of_a_fork_mentions_nobody() -> None:
    record = attacked("harmless")
    label = "ask @everyone <b> #7 www.evil.example"
    groups = tuple(replace(each, label=label) for each in record.failure_groups)

    body = CommentReport(is_trusted=False).render(replace(record, failure_groups=groups))

    assert "</b>: ask @\u200beveryone &lt;b&gt; #\u200b7 www\u200b.evil.example" in body


@example("".join(PIECES))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(ATTACKS)
def test_the_record_itself_stays_one_json_document(text: str) -> None:
    assert json.loads(ResultsJsonReport().render(attacked(text)))["totals"]["cases"] == 2
