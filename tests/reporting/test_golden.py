"""Whole reports against the files in tests/golden; `--update-golden` writes them anew."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evalgate.core.protocols import Reporter
from evalgate.core.types import Record
from evalgate.reporting.codequality import CodeQualityReport
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.report_files import ResultsJsonReport
from evalgate.reporting.terminal import TerminalReport
from tests.situations import COMMENTS, GOLDEN

FOLDER = Path(__file__).parents[1] / "golden"
REPORTERS: tuple[Reporter, ...] = (
    ResultsJsonReport(),
    JUnitReport(),
    CommentReport(),
    CodeQualityReport(),
    TerminalReport(),
    HtmlReport(),
)


@pytest.mark.parametrize("reporter", REPORTERS, ids=lambda reporter: reporter.file_name)
@pytest.mark.parametrize(("name", "situation"), GOLDEN.items(), ids=list(GOLDEN))
def test_report_is_the_golden_one(
    name: str, situation: Callable[[], Record], reporter: Reporter, request: pytest.FixtureRequest
) -> None:
    rendered = reporter.render(situation())
    golden = FOLDER / name / reporter.file_name
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMENTS)
def test_comment_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    situation, comment = COMMENTS[name]
    rendered = comment.render(situation())
    golden = FOLDER / "comments" / f"{name}.md"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    expected = {FOLDER / "comments" / f"{name}.md" for name in COMMENTS}
    expected |= {FOLDER / name / reporter.file_name for name in GOLDEN for reporter in REPORTERS}
    assert {path for path in FOLDER.glob("*/*") if path.is_file()} == expected
