"""A headless Chromium for tests of pages: the machine's own browser, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # most tests need no browser, and do not wait for its library
    from playwright.sync_api import Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser_program() -> str:
    """Return the path of the machine's browser."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        if os.environ.get("EVALGATE_REQUIRE_BROWSER"):
            pytest.fail(f"no browser: install one of {', '.join(PROGRAMS)}")
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is installed")
    return program


@pytest.fixture
def page(browser_program: str) -> Iterator["Page"]:
    """Open a page in a browser of its own. An exception in one of its scripts fails the test.

    Playwright's event loop counts as running until it is stopped, and a test after this one may need its own.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Containers rarely allow the browser's sandbox, and these pages are the tests' own.
        browser = playwright.chromium.launch(executable_path=browser_program, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1280, "height": 800})
        faults: list[str] = []
        opened.on("pageerror", lambda error: faults.append(str(error)))
        yield opened
        browser.close()
    assert faults == []


def find_violations(page: "Page", *rules: str) -> list[str]:
    """Return one line for each element of the page that breaks a rule of axe (WCAG 2.2 and good practice).

    With `rules`, only those are checked: in the other colour scheme, only `color-contrast` can differ.
    """
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": list(rules)} if rules else None).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


def has_sideways_scroll(page: "Page") -> bool:
    """Return True if the page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


def save_picture(page: "Page", name: str, *, whole: bool = True) -> None:
    """Write a picture of the page to the folder `EVALGATE_PICTURES`, if that is set."""
    folder = os.environ.get("EVALGATE_PICTURES")
    if folder:
        path = Path(folder, f"{name}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path, full_page=whole)
