"""`report.html` in a browser: search, sorting, groups, links, keyboard, narrow windows, and hostile text."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalgate.core.types import CaseMetric, CaseResult, Record, ToolCall, TraceSpan, Usage
from evalgate.reporting.html.reporter import HtmlReport
from tests.browser import find_violations, has_sideways_scroll, save_picture
from tests.builders import TRAJECTORY, a_case_result, a_reply, a_run_result, a_turn_result
from tests.reporting.test_hostile_laws import PIECES, attacked
from tests.situations import hostile, huge, regression

if TYPE_CHECKING:
    from playwright.sync_api import Page

OpenRecord = Callable[[Record], "Page"]
SHOWN = "[...document.querySelectorAll('.case')].filter((e) => e.checkVisibility()).map((e) => e.querySelector('.name').textContent)"
TRACE = (
    TraceSpan("a", "support_agent", "agent", 0, 0, 6.2),
    TraceSpan(
        "m1",
        "gpt-5-mini",
        "model",
        0,
        0.05,
        1.4,
        "a",
        usage=Usage(812, 40, 0.0011),
        request={
            "messages": ["Where is my parcel?"],
            "tools": [{"name": "look_up_order"}, {"name": "escalate"}],
        },
    ),
    TraceSpan("t1", "look_up_order", "tool", 0, 1.5, 0.3, "a", request={"order": "4711"}, response="lost"),
    TraceSpan("t2", "issue_refund", "tool", 0, 2, 3, "a", request={"amount": 319}, error="above the total"),
    TraceSpan("m2", "gpt-5-mini", "model", 0, 5, 1, "a", usage=Usage(900, 80, 0.0017), response="Refunded."),
)


def a_traced_case() -> CaseResult:
    """A case that refunded too much, with the trace of its run."""
    calls = ToolCall("look_up_order", {"order": "4711"}), ToolCall("issue_refund", {"amount": 31.9})
    wrong = a_reply("Refunded.", calls[0], ToolCall("issue_refund", {"amount": 319}))
    turn = a_turn_result("Where is my parcel?", a_reply("It is lost: 31.90 EUR are back.", *calls), wrong)
    run = replace(a_run_result(turn, duration_s=6.2), usage=Usage(1712, 120, 0.0028), trace=TRACE)
    metric = CaseMetric(TRAJECTORY, 0.0, 1.0, "failed", "call 2 differs in its arguments")
    return a_case_result("lost_parcel", "failed", metrics=(metric,), runs=(run,))


def a_small_record() -> Record:
    """Eleven cases of two eval sets; one has a trace."""
    passed = [
        replace(
            a_case_result(f"late_{at}", runs=(a_run_result(duration_s=at),)),
            eval_set_id="shop",
            tags=("smoke",) if at % 2 else ("billing",),
        )
        for at in range(1, 7)
    ]
    return replace(regression(), cases=(a_traced_case(), *regression().cases, *passed))


@pytest.fixture
def open_record(page: "Page", tmp_path: Path) -> OpenRecord:
    """Return a function that opens the page of a record."""

    def open_page(record: Record) -> "Page":
        path = tmp_path / "report.html"
        path.write_text(HtmlReport().render(record), encoding="utf-8")
        page.goto(path.as_uri())
        return page

    return open_page


def wait_until_shown(page: "Page", count: int) -> list[str]:
    """Wait for the list to show so many cases, and return their names."""
    names: list[str] = page.evaluate(SHOWN)
    for _ in range(100):
        if len(names) == count:
            break
        page.wait_for_timeout(20)
        names = page.evaluate(SHOWN)
    assert len(names) == count
    return names


def test_cases_are_searched_sorted_and_grouped(open_record: OpenRecord) -> None:
    page = open_record(a_small_record())
    everything = wait_until_shown(page, 11)
    save_picture(page, "report-12-cases")

    page.keyboard.press("/")
    page.keyboard.type("ISSUE_refund parcel")
    assert wait_until_shown(page, 1) == ["travel/lost_parcel"]
    assert page.locator("#shown").text_content() == "1 of 11 cases on this page"
    page.keyboard.press("Escape")
    assert wait_until_shown(page, 11) == everything

    page.select_option("#sort", label="longest time")
    assert wait_until_shown(page, 11)[:3] == ["travel/lost_parcel", "shop/late_6", "shop/late_5"]
    page.select_option("#sort", label=f"lowest {TRAJECTORY}")
    assert wait_until_shown(page, 11)[0] == "travel/lost_parcel"
    page.select_option("#sort", label="importance")
    assert wait_until_shown(page, 11) == everything

    page.select_option("#group", label="eval set")
    page.locator("label[for=show-passed]").click()
    assert wait_until_shown(page, 8)[:6] == [f"shop/late_{at}" for at in range(1, 7)]
    assert page.locator(".group-title").all_text_contents() == ["shop 6", "travel 2"]
    page.select_option("#group", label="first divergence")
    titles = page.locator(".group-title").all_text_contents()
    assert titles == ["get_weather with another city 0", "Others 8"]
    assert not page.locator(".group-title").first.is_visible()

    open_record(huge(2_000, causes=7))
    page.fill("#search", "case_199")
    found = wait_until_shown(page, 11)
    assert set(found) == {"travel/case_199", *(f"travel/case_{at}" for at in range(1990, 2000))}
    page.select_option("#group", label="cause")
    assert sum(int(text.split()[-1]) for text in page.locator(".group-title").all_text_contents()) == 11
    page.evaluate("document.getElementById('cases').scrollIntoView()")
    save_picture(page, "report-2000-cases-search", whole=False)


def test_a_link_opens_its_case_and_steps_light_up_their_message(open_record: OpenRecord) -> None:
    page = open_record(a_small_record())
    page.fill("#search", "nothing has this")
    wait_until_shown(page, 0)
    page.fill("#search", "late_")
    wait_until_shown(page, 6)
    page.locator("a", has_text="travel/lost_parcel").first.click()
    assert len(wait_until_shown(page, 11)) == 11
    case = page.locator(".case", has_text="lost_parcel").first
    assert case.get_attribute("open") == ""
    save_picture(page, "report-trace", whole=False)

    for _ in range(2):
        page.keyboard.press("j")
    page.keyboard.press("k")
    focused = page.evaluate("document.activeElement.querySelector('.name').textContent")
    assert focused in wait_until_shown(page, 11)

    step = case.locator(".step", has_text="issue_refund").first
    step.hover()
    assert case.locator(".talk li.lit").all_text_contents() == ['Tool callissue_refund{"amount": 319}']
    step.locator("summary").click()
    assert "above the total" in step.inner_text()
    step.locator("a").click()
    assert case.locator(".talk li:target").count() == 1
    case.locator(".talk li", has_text="look_up_order").first.hover()
    assert case.locator(".step.lit code").all_text_contents()[:2] == ["gpt-5-mini", "look_up_order"]


def test_the_page_suits_all_readers(open_record: OpenRecord) -> None:
    page = open_record(a_small_record())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.locator("svg.graph").get_attribute("role") == "img"
    assert find_violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert find_violations(page, "color-contrast") == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert not has_sideways_scroll(page)
    save_picture(page, "report-360-dark")
    page.emulate_media(color_scheme="light")
    save_picture(page, "report-360-light")


def test_the_whole_page_is_readable_without_script(page: "Page", tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(HtmlReport().render(a_small_record()), encoding="utf-8")
    assert page.context.browser
    plain = page.context.browser.new_context(
        java_script_enabled=False, viewport={"width": 1280, "height": 800}
    ).new_page()
    plain.goto(path.as_uri())
    save_picture(plain, "report-12-cases-without-script")
    assert not plain.locator("#tools").is_visible()
    assert plain.locator(".case").count() == 11
    plain.locator("label[for=show-failed]").click()
    assert plain.locator(".case.passed").first.is_hidden()
    plain.locator("a", has_text="travel/lost_parcel").first.click()
    assert plain.locator(".case .waterfall").is_visible()


def test_hostile_text_runs_nothing(open_record: OpenRecord, page: "Page") -> None:
    heard: list[str] = []
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    page.on("request", lambda request: heard.append(request.url))
    for record in (hostile(), attacked("".join(PIECES))):
        first = replace(record.cases[0], tags=("<img src=x onerror=alert(1)>",))
        other = replace(record.cases[0], eval_set_id="</script><script>alert(2)</script>", tags=("b",))
        open_record(replace(record, cases=(first, other, *record.cases[1:])))
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for value in page.eval_on_selector_all("#group option", "all => all.map((each) => each.value)"):
            page.select_option("#group", value)
        page.fill("#search", "<script>")
        page.wait_for_timeout(150)
        assert page.locator("script").count() == 1
        assert page.locator("img, iframe, object, embed, link").count() == 0

    assert [each for each in heard if not each.startswith("file:")] == []
