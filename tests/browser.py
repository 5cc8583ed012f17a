"""A headless Chromium for tests of pages: the machine's own browser, driven by Playwright."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # most tests need no browser, and do not wait for its library
    from playwright.sync_api import Browser, Page

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


class _PausedLoop:
    """Playwright's event loop, which counts as running in this thread only while a test uses the browser."""

    def __init__(self) -> None:
        self._hooks = sys.get_asyncgen_hooks()
        self._loop: asyncio.AbstractEventLoop | None = None

    def pause(self) -> None:
        """Stop the event loop of Playwright, so that other tests can run their own loop."""
        self._loop = asyncio._get_running_loop()
        self._hooks, hooks = sys.get_asyncgen_hooks(), self._hooks
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(*hooks)

    def resume(self) -> None:
        """Resume the event loop of Playwright."""
        self._hooks, hooks = sys.get_asyncgen_hooks(), self._hooks
        asyncio._set_running_loop(self._loop)
        sys.set_asyncgen_hooks(*hooks)


@pytest.fixture(scope="module")
def browser(browser_program: str) -> Iterator[tuple["Browser", _PausedLoop]]:
    """Start one browser for all tests of a module, because a start takes longer than most tests."""
    from playwright.sync_api import sync_playwright

    loop = _PausedLoop()
    with sync_playwright() as playwright:
        # Containers rarely allow the browser's sandbox, and these pages are the tests' own.
        started = playwright.chromium.launch(executable_path=browser_program, args=["--no-sandbox"])
        loop.pause()
        yield started, loop
        loop.resume()
        started.close()


@pytest.fixture
def page(browser: tuple["Browser", _PausedLoop]) -> Iterator["Page"]:
    """Open a page without cookies and storage of other tests. An exception in one of its scripts fails the test."""
    started, loop = browser
    loop.resume()
    try:
        opened = started.new_page(viewport={"width": 1280, "height": 800})
        faults: list[str] = []
        opened.on("pageerror", lambda error: faults.append(str(error)))
        yield opened
        for context in started.contexts:
            context.close()
    finally:
        loop.pause()
    assert faults == []


def find_violations(page: "Page", *rules: str) -> list[str]:
    """Return one line for each element of the page that breaks a rule of axe (WCAG 2.2 and good practice).

    With `rules`, only those are checked: in the other colour scheme, only `color-contrast` can differ.
    """
    from axe_playwright_python.sync_playwright import Axe

    # A page that a click opened may show its text before its style sheet has arrived.
    page.wait_for_load_state()
    # Without `resultTypes`, axe describes every element that keeps a rule as well, which takes most of its time.
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


def has_sideways_scroll(page: "Page") -> bool:
    """Return True if the page is wider than its window."""
    page.wait_for_load_state()
    # A new size of the window takes effect with the next frame.
    frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    return bool(
        page.evaluate(f"{frame}.then(() => document.documentElement.scrollWidth > window.innerWidth)")
    )


def save_picture(page: "Page", name: str, *, whole: bool = True) -> None:
    """Write a picture of the page to the folder `EVALGATE_PICTURES`, if that is set."""
    folder = os.environ.get("EVALGATE_PICTURES")
    if folder:
        page.wait_for_load_state()
        path = Path(folder, f"{name}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path, full_page=whole)
