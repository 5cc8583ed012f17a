"""The pages in a browser: axe, narrow windows, both colour schemes, keys, and hostile texts."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalgate.cli.view import write_redirect
from evalgate.core.types import CaseMetric, TraceSpan, Verdict
from evalgate.datasets.results_io import dump_record
from evalgate.reporting.results_history import FOLDER
from tests.browser import find_violations, has_sideways_scroll, save_picture
from tests.builders import a_case_result, a_record, a_summary
from tests.viewer.samples import ACTUAL, EXPECTED, a_record_to_view, a_scored_case, a_scored_run
from tests.viewer.serving import serve_viewer, write_record

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

CASE = "/records/last/case?in=support&id=refund_late"
PAGES = {
    "overview": "/records/last",
    "cases": "/records/last/cases",
    "case": CASE,
    "runs": f"{CASE}&view=runs",
    "trace": f"{CASE}&view=trace&span=4&panel=event",
    "graph": f"{CASE}&view=trace&panel=graph",
    "history": "/history",
    "case-history": "/case-history?in=support&id=refund_late",
    "compare": "/compare?a=20261101T080000Z&b=last",
    "compare-case": "/compare/case?a=20261101T080000Z&b=last&in=support&id=refund_late",
}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A viewer of two results; the later one is worse."""
    now = a_record_to_view()
    good = a_scored_case("refund_late", 1.0, a_scored_run(1, EXPECTED, 1.0))
    before = replace(
        now,
        created_at="2026-11-01T08:00:00Z",
        cases=(good, *now.cases[2:]),
        comparison=None,
        verdict=Verdict("pass", 0),
    )
    write_record(tmp_path / "evalgate-report/results.json", now)
    write_record(tmp_path / FOLDER / "20261101T080000Z.json", before)
    with serve_viewer(tmp_path) as found:
        yield found


def test_every_page_is_clean_in_every_window(page: "Page", address: str) -> None:
    page.goto(address)
    assert "token" not in page.url
    root = page.url.partition("/records")[0]
    found: list[str] = []
    for name, path in PAGES.items():
        page.goto(f"{root}{path}")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in (1280, 360):
                page.set_viewport_size({"width": width, "height": 800})
                save_picture(page, f"viewer-{name}-{scheme}-{width}")
                if has_sideways_scroll(page):
                    found.append(f"{name} {width}: scrolls sideways")
            found += [
                f"{name} {scheme}: {each}"
                for each in find_violations(page, *("color-contrast",) * (scheme == "dark"))
            ]
    assert found == []


def test_long_words_do_not_push_the_scores_of_a_list_out_of_sight(page: "Page", tmp_path: Path) -> None:
    long = "x" * 230
    metric = "politeness_of_the_answer_in_the_language_of_the_customer"
    case = replace(
        a_case_result(
            f"parcel-{'long-' * 30}", "failed", metrics=(CaseMetric(metric, 0.0, 1.0, "failed", long),)
        ),
        eval_set_id="kundendienst-für-alle-regionen",
    )
    record = a_record(case, metrics=(a_summary(metric, 0.0, status="failed"),))
    write_record(tmp_path / "evalgate-report/results.json", record)
    with serve_viewer(tmp_path) as address:
        page.goto(address)
        page.goto(f"{page.url}/cases")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            save_picture(page, f"viewer-long-words-{width}")
            hidden = page.locator(".wide").evaluate("box => box.scrollWidth - box.clientWidth")
            assert hidden <= 0, width


def test_it_opens_from_a_file_and_from_another_site(page: "Page", address: str, tmp_path: Path) -> None:
    with write_redirect(address, tmp_path) as file:
        page.goto(file)
        page.wait_for_url(re.compile("^http://127.0.0.1:[0-9]+/records/"))
    page.context.clear_cookies()
    page.goto(f"data:text/html,<a href='{address}'>open</a>")
    page.click("a")
    page.wait_for_url(re.compile("^http://127.0.0.1:[0-9]+/records/"))
    assert page.locator("h1").count() == 1


def test_keys_alone_are_enough(page: "Page", address: str) -> None:
    page.goto(address)
    page.goto(page.url + "/cases")
    page.keyboard.press("/")
    page.keyboard.type("refund parcel")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cases?q=refund+parcel**")
    assert page.locator(".case-link").count() == 1
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/case?**")
    assert "refund_late" in page.title()
    page.keyboard.press("u")
    page.wait_for_url("**/cases?q=refund+parcel")
    page.get_by_role("link", name="Clear").press("Enter")
    page.wait_for_url("**/cases")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/case?in=support&id=refund_late")
    page.keyboard.press("j")
    page.wait_for_url("**/case?in=support&id=crash")
    page.keyboard.press("k")
    page.wait_for_url("**id=refund_late")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_pointing_at_a_step_lights_up_its_message(page: "Page", address: str) -> None:
    page.goto(address)
    page.goto(f"{page.url.partition('/records')[0]}{CASE}&view=trace")
    page.locator(".step", has_text="issue_refund").hover()
    (message,) = page.locator(".talk li.lit").all_inner_texts()
    assert '"amount": 12' in message
    page.locator(".talk li", has_text="sorry").hover()
    assert page.locator(".talk li.lit").count() == 1
    (step,) = page.locator(".step.lit").all_inner_texts()
    assert "600 + 40 tokens" in step


def test_every_page_works_without_a_script(page: "Page", address: str) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(address)
    plain.get_by_role("link", name="Cases", exact=True).click()
    plain.get_by_label("Search").fill("sorry")
    plain.get_by_label("Tag").select_option("billing")
    plain.get_by_role("button", name="Show").click()
    plain.locator(".case-link").click()
    plain.get_by_role("link", name="Trace").click()
    plain.locator(".waterfall a").nth(4).click()
    assert "limit exceeded" in plain.locator(".trace-step").inner_text()
    context.close()


HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "{{ 7 * 7 }}{% raw %}", "javascript:alert(1)",
    "\u202egnp.exe", "\x1b[31mred\x07", "a\u200bb", "]]>--><!--", "&lt;b&gt;", "'; alert(1); '", "x" * 50_000,
)  # fmt: skip


def test_hostile_text_is_shown_and_runs_nothing(page: "Page", tmp_path: Path) -> None:
    cases = []
    for at, text in enumerate(HOSTILE):
        reply = replace(
            ACTUAL,
            response=text,
            events=tuple(
                replace(event, name=text, args={text: text}) if event.type == "tool_call" else event
                for event in ACTUAL.events
            ),
        )
        span = TraceSpan(
            text, text, "tool", 0, 0.0, 1.0, "", text, request={text: text}, response=text, error=text
        )
        run = a_scored_run(1, reply, 0.0, trace=(span,))
        turn = replace(
            run.turns[0],
            user=text,
            metrics=tuple(replace(each, reason=text, name=text) for each in run.turns[0].metrics),
        )
        case = a_scored_case(
            text[:3_000], 0.0, replace(run, turns=(turn,)), eval_set_id=f"set{at}", tags=(text[:3_000],)
        )
        cases.append(
            replace(
                case, path=text[:3_000], metrics=tuple(replace(each, reason=text) for each in case.metrics)
            )
        )
    record = replace(
        a_record_to_view(), cases=tuple(cases), notices=HOSTILE, verdict=Verdict("fail", 1, HOSTILE)
    )
    (tmp_path / "results.json").write_text(dump_record(record))
    dialogs: list[str] = []
    refused: list[str] = []

    def refuse_dialog(dialog: "Dialog") -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse_dialog)
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    with serve_viewer(tmp_path, ["results.json"]) as address:
        page.goto(address)
        overview = page.content()
        page.goto(page.url + "/cases?sort=name")
        hrefs = [each.get_attribute("href") for each in page.locator(".case-link").all()]
        assert len(hrefs) == len(HOSTILE)
        root = page.url.partition("/records")[0]
        for at, href in enumerate(hrefs):
            page.goto(f"{root}{href}&view=trace&panel={('event', 'request', 'graph', 'response')[at % 4]}")
            assert page.locator(".waterfall a").count() == 1
            assert page.locator("main script, main img, main svg[onload], [onerror], [onload]").count() == 0
            if at % 3:  # the page of a trace shows the conversation as well
                continue
            page.goto(f"{root}{href}")
            assert page.locator("main script, main img, main svg[onload], [onerror], [onload]").count() == 0
            text = page.locator("main").inner_text()
            for word in (
                "alert(1)",
                "7 * 7",
                "gnp.exe",
                "[31mred",
                "--><!--",
                "&lt;b&gt;",
                "x" * 1000,
                "a\\u200bb",
            ):
                if word in text:
                    break
            else:
                raise AssertionError(text[:500])
        page.goto(f"{root}/records/results/cases?q=%3Cscript%3Ealert(1)%3C/script%3E")
        assert page.get_by_label("Search").input_value() == "<script>alert(1)</script>"
        assert page.locator(".case-link").count() == 1
    assert (dialogs, refused) == ([], [])
    assert "\u202e" not in overview
    assert "\\u202e" in overview
