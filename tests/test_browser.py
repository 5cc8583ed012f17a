"""The helpers of tests that look at pages."""

from typing import TYPE_CHECKING

from tests.browser import find_violations, has_sideways_scroll

if TYPE_CHECKING:
    from playwright.sync_api import Page

GOOD = '<!doctype html><html lang="en"><title>T</title><main><h1>Hello</h1>%s</main>'


def test_axe_finds_nothing_on_a_good_page(page: "Page") -> None:
    page.set_content(GOOD % "")

    assert find_violations(page) == []
    assert not has_sideways_scroll(page)


def test_axe_names_an_image_without_a_text(page: "Page") -> None:
    page.set_content(GOOD % '<img src="data:,"><p style="width: 3000px">Wide</p>')

    assert [line.partition(":")[0] for line in find_violations(page)] == ["image-alt"]
    assert has_sideways_scroll(page)
