"""Whole reports against the files in tests/golden; `--update-golden` writes them anew."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

import evalgate.reporting
from evalgate.core.protocols import Reporter
from evalgate.core.types import Record
from evalgate.reporting.codequality import CodeQualityReport
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.report_files import ResultsJsonReport
from evalgate.reporting.terminal import TerminalReport
from tests.situations import COMMENTS, GOLDEN, green

FOLDER = Path(__file__).parents[1] / "golden"
FILES = {
    path.name: path.read_text("utf-8")
    for name in ("page.css", "page.js")
    for path in [Path(evalgate.reporting.__file__).parent / "templates" / name]
}
DIGESTS = {
    name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in FILES.items()
}
REPORTERS: tuple[Reporter, ...] = (
    ResultsJsonReport(),
    JUnitReport(),
    CommentReport(),
    CodeQualityReport(),
    TerminalReport(),
    HtmlReport(),
)


def take_out_files(page: str) -> str:
    """Replace the style sheet and the script of a page and their digests by markers.

    They are files of their own and the same in every page, so a copy in each golden page would only make
    their changes hard to read.
    """
    for name, text in FILES.items():
        page = page.replace(text, f"({name})").replace(DIGESTS[name], f"(digest of {name})")
    return page


@pytest.mark.parametrize("reporter", REPORTERS, ids=lambda reporter: reporter.file_name)
@pytest.mark.parametrize(("name", "situation"), GOLDEN.items(), ids=list(GOLDEN))
def test_the_report_equals_its_golden_file(
    name: str, situation: Callable[[], Record], reporter: Reporter, request: pytest.FixtureRequest
) -> None:
    rendered = take_out_files(reporter.render(situation()))
    golden = FOLDER / name / reporter.file_name
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMENTS)
def test_the_comment_equals_its_golden_file(name: str, request: pytest.FixtureRequest) -> None:
    situation, comment = COMMENTS[name]
    rendered = comment.render(situation())
    golden = FOLDER / "comments" / f"{name}.md"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


def test_every_page_has_the_style_sheet_and_the_script_and_their_digests_once() -> None:
    page = HtmlReport().render(green())
    golden = (FOLDER / "green/report.html").read_text("utf-8")
    for name, text in FILES.items():
        assert golden.count(f"({name})") == golden.count(f"(digest of {name})") == 1
        golden = golden.replace(f"({name})", text).replace(f"(digest of {name})", DIGESTS[name])
    assert page == golden


def test_no_golden_file_is_left_over() -> None:
    expected = {FOLDER / "comments" / f"{name}.md" for name in COMMENTS}
    expected |= {FOLDER / name / reporter.file_name for name in GOLDEN for reporter in REPORTERS}
    assert {path for path in FOLDER.glob("*/*") if path.is_file()} == expected
