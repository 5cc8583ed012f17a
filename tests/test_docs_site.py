"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, and works offline."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import find_violations, has_sideways_scroll, save_picture

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is in the group `check`")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Resources(HTMLParser):
    """Collects the addresses that a browser loads without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        is_loaded = tag != "link" or (named.get("rel") or "") not in {
            "canonical",
            "prev",
            "next",
            "edit",
            "alternate",
        }
        keys = {
            "link": "href",
            "script": "src",
            "img": "src",
            "iframe": "src",
            "source": "srcset",
            "video": "src",
        }
        if is_loaded and (address := named.get(keys.get(tag, ""))):
            self.found.append(address)


def resources(site: Path) -> Iterator[str]:
    for path in site.rglob("*.html"):
        parser = Resources()
        parser.feed(path.read_text("utf-8"))
        yield from parser.found
    for path in site.rglob("*.css"):
        yield from re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", path.read_text("utf-8"))


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    found = list(resources(site))
    assert len(found) > 100
    assert [each for each in found if re.match(r"(https?:)?//", each)] == []


def test_every_page_and_schema_of_the_documents_is_there(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages - {path.stem for path in site.glob("*.html")} == set()
    for name in ("evalgate.schema.json", "matrix.schema.json", "results.schema.json"):
        assert json.loads((site / name).read_text("utf-8")) == json.loads(
            (ROOT / "docs" / name).read_text("utf-8")
        )
    assert list(site.rglob("*.py")) == []


def test_tables_lists_and_code_are_what_github_shows(site: Path) -> None:
    import cmarkgfm

    wrong = []
    for path in sorted((ROOT / "docs").glob("*.md")):
        shown = cmarkgfm.github_flavored_markdown_to_html(path.read_text("utf-8"))
        built = (site / f"{path.stem}.html").read_text("utf-8")
        built = built[built.index("<article") : built.index("</article>")]
        for tag, pattern in {
            "table": "<table",
            "row": "<tr",
            "code": "<pre",
            "heading": "<h[1-4]",
            "item": "<li",
        }.items():
            counts = len(re.findall(pattern, shown)), len(re.findall(pattern, built))
            if counts[0] != counts[1]:
                wrong.append(f"{path.name}: {tag} {counts[0]} on GitHub, {counts[1]} here")
    assert wrong == []


def test_the_site_reads_well(address: str, page: "Page") -> None:
    """Front page and a long page, in both colours and on a phone; the search asks no other machine."""
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.add_init_script("localStorage.clear()")  # it holds the colours of the visit before
    for scheme, theme in {"light": "default", "dark": "slate"}.items():
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for name in ("index", "thresholds"):
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(f"{address}/{name}.html")
            page.wait_for_selector(f"body[data-md-color-scheme={theme}]")
            page.wait_for_timeout(300)  # colours of links change slowly
            assert find_violations(page) == []
            save_picture(page, f"docs-{name}-{scheme}", whole=False)
        page.set_viewport_size({"width": 360, "height": 780})
        assert not has_sideways_scroll(page)
        save_picture(page, f"docs-phone-{scheme}", whole=False)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{address}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("quarantine")
    page.wait_for_selector(".md-search-result__item", timeout=20_000)
    assert "baselines.html" in (page.get_attribute(".md-search-result__link", "href") or "")
    assert [each for each in requests if not each.startswith((address, "data:", "blob:"))] == []


def test_every_step_of_the_tutorial_works(tmp_path: Path) -> None:
    """Write the files that it shows, and run its commands in their order; what it says is printed is printed."""
    text = (ROOT / "docs/tutorial.md").read_text("utf-8")
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    person = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }
    settings = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{remote}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/you/desk.git",
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    folder, printed, ran = tmp_path, "", 0
    for language, title, block in find_blocks(text):
        if language == "console":
            printed = ""
            for line in block.splitlines():
                if line.startswith("$ cd "):
                    folder = folder / line.removeprefix("$ cd ")
                elif line.startswith("$ "):
                    command, _, code = line.removeprefix("$ ").partition("  # exit code ")
                    done = subprocess.run(
                        ["bash", "-c", command], cwd=folder, env={**clean, **person, **settings, "PATH": path},
                        capture_output=True, text=True, check=False,
                    )  # fmt: skip
                    assert done.returncode == int(code or 0), f"{command}\n{done.stdout}{done.stderr}"
                    printed, ran = printed + done.stdout, ran + 1
                else:
                    assert line in printed.splitlines()
        elif title.startswith("the end"):
            assert all(line in printed for line in block.splitlines())
        elif title == "from the comment":
            assert all(
                line in (folder / "evalgate-report/comment.md").read_text("utf-8")
                for line in block.splitlines()
            )
        else:
            (folder / title).write_text(block, encoding="utf-8")
    assert ran >= 15


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Serve the site on this machine."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(site))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def find_blocks(text: str) -> Iterator[tuple[str, str, str]]:
    return ((match[1], match[2] or "", match[3]) for match in FENCE.finditer(text))
