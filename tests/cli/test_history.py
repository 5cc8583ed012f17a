"""`evalgate history`: the badge and the page of a baseline."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalgate.__main__ import main
from evalgate.baselines.flakiness import BaselineThresholds
from evalgate.baselines.serialization import dump_baseline
from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource
from evalgate.reporting.history.badge import render_badge
from evalgate.reporting.history.series import build_history
from tests.browser import find_violations, has_sideways_scroll, save_picture

if TYPE_CHECKING:
    from playwright.sync_api import Page

METRIC = "response_match_score"
FIRST = datetime(2026, 11, 1, 8, tzinfo=UTC)


def build_baseline(*levels: float, cases: int = 4, name: str = "case") -> Baseline:
    """A baseline with a gate run for each level, one a day, in which every case scores it."""
    sources = tuple(
        BaselineSource((FIRST + timedelta(days=at)).isoformat(), f"{at:02x}" * 20, "main")
        for at in range(len(levels))
    )
    rows = tuple(
        BaselineCase(
            "set",
            f"{name}_{number}",
            "passed" if levels[-1] >= 0.8 else "failed",
            "f",
            {METRIC: "m"},
            tuple(BaselineRun(at, "answered", {METRIC: level}) for at, level in enumerate(levels)),
        )
        for number in range(cases)
    )
    return Baseline(rows, sources, "b.json")


def write_project(folder: Path, baseline: Baseline) -> Path:
    (folder / "b.json").write_text(dump_baseline(baseline), "utf-8")
    rules = f'{{"version": 1, "criteria": {{"{METRIC}": 0.8}}, "gate": {{"baseline": "b.json"}}}}'
    (folder / "evalgate.json").write_text(rules, "utf-8")
    return folder


def test_a_small_change_is_told_with_the_digits_that_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_project(tmp_path, build_baseline(*[0.801] * 6, *[0.804] * 6))
    for command in ("history", "flaky"):
        assert main([command, "-C", str(folder)]) == 0
        assert "response_match_score rose from 0.801 to 0.804 at 060606060606" in capsys.readouterr().out
    page = (folder / "evalgate-history/index.html").read_text("utf-8")
    assert "0.801" in page
    assert "0.80<" not in page


def test_the_axis_of_a_budget_has_no_figures_below_nothing(tmp_path: Path) -> None:
    baseline = build_baseline(*[0.5] * 3)
    cases = tuple(
        replace(
            case,
            metric_fingerprints={"budget/cost_usd": "c"},
            runs=tuple(replace(run, scores={"budget/cost_usd": 0.0034}) for run in case.runs),
        )
        for case in baseline.cases
    )
    folder = write_project(tmp_path, replace(baseline, cases=cases))
    assert main(["history", "-C", str(folder)]) == 0
    page = (folder / "evalgate-history/index.html").read_text("utf-8")
    assert re.findall(r'class="scale"[^>]*><span>(.*?)</span><span>(.*?)</span>', page) == [
        ("0.00374", "0.00306")
    ]


def test_a_fall_is_named_with_its_commit_and_drawn(
    tmp_path: Path, page: "Page", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = [0.9, 0.92, 0.91, 0.9, 0.93, 0.91, 0.6, 0.62, 0.61, 0.59, 0.6]
    folder = write_project(tmp_path, build_baseline(*levels, name="<img src=x>"))
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/desk")
    assert main(["history", "-C", str(folder), "--out", "site", "--label", "desk & co"]) == 0

    printed = capsys.readouterr().out
    fall = "response_match_score fell from 0.91 to 0.60 at 060606060606 (2026-11-07): 6 gate runs before, 5 after"
    assert fall in printed
    assert "the run before was 050505050505 (2026-11-06)" in printed
    page.goto((folder / "site/index.html").as_uri())
    assert page.locator("h1").inner_text() == "0 of 4 cases passed in their newest gate run"
    assert page.locator(".remarks").first.inner_text().startswith(printed[:60])
    assert page.locator("svg circle").count() == len(levels)
    assert page.locator("svg line.worse").count() == 1
    assert page.locator("tbody tr").count() == len(levels)
    links = page.locator("tbody a")
    assert links.first.get_attribute("href") == f"https://github.com/acme/desk/commit/{'0a' * 20}"
    assert page.locator("img").count() == 0
    assert page.get_by_text("<img src=x>_0").first.is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.plot svg')).display") == "block"
    assert find_violations(page) == []
    save_picture(page, "history")
    page.set_viewport_size({"width": 390, "height": 800})
    assert not has_sideways_scroll(page)
    save_picture(page, "history-narrow")
    assert main(["flaky", "-C", str(folder)]) == 0
    assert fall in capsys.readouterr().out
    badge = ET.fromstring((folder / "site/badge.svg").read_text("utf-8"))
    assert badge.get("aria-label") == f"desk & co: 0/4 passed{'' if _is_fresh() else ', 2026-11-11'}"


def _is_fresh() -> bool:
    return (datetime.now(UTC) - FIRST - timedelta(days=10)).days <= 14


@pytest.mark.parametrize(
    ("failing", "days", "color", "message"),
    [
        (0, 0, "#18723d", "20/20 passed"),
        (1, 0, "#8a5a00", "19/20"),
        (5, 0, "#b3261e", "15/20"),
        (0, 20, "#5b6472", "2026-11-02"),
    ],
)
def test_the_badge_has_the_colour_of_the_newest_run(
    failing: int, days: int, color: str, message: str
) -> None:
    baseline = build_baseline(1.0, 1.0, cases=20)
    cases = tuple(
        replace(case, status="failed") if at < failing else case for at, case in enumerate(baseline.cases)
    )
    history = build_history(replace(baseline, cases=cases), BaselineThresholds({METRIC: 0.8}), {}, 1.0)
    text = render_badge(history, "evalgate", FIRST + timedelta(days=1 + days))
    assert color in text
    assert message in text


@pytest.mark.parametrize("time", ["2026-11-01", "2026-11-01T08:00:00", "yesterday", ""])
def test_a_gate_run_of_unknown_age_is_not_called_old(time: str) -> None:
    baseline = build_baseline(1.0)
    baseline = replace(baseline, sources=(replace(baseline.sources[0], created_at=time),))
    history = build_history(baseline, BaselineThresholds({METRIC: 0.8}), {}, 1.0)
    assert "evalgate: 4/4 passed<" in render_badge(history, "evalgate", FIRST + timedelta(days=99))


def test_the_badge_counts_the_age_of_the_newest_gate_run_alone() -> None:
    baseline = build_baseline(1.0, 1.0)
    first, *rest = baseline.sources
    baseline = replace(baseline, sources=(replace(first, created_at="yesterday"), *rest))
    history = build_history(baseline, BaselineThresholds({METRIC: 0.8}), {}, 1.0)
    assert "#5b6472" in render_badge(history, "evalgate", FIRST + timedelta(days=99))


def test_a_case_that_is_added_later_moves_no_average() -> None:
    old = build_baseline(*[0.9] * 8)
    new = replace(
        old.cases[0], eval_id="hard", runs=tuple(BaselineRun(at, "answered", {METRIC: 0.2}) for at in (6, 7))
    )
    history = build_history(replace(old, cases=(*old.cases, new)), BaselineThresholds({METRIC: 0.8}), {}, 1.0)
    (series,) = history.series
    assert {round(value, 9) for value in series.values} == {0.76}
    assert series.changes == ()


def test_a_metric_that_is_only_reported_fails_no_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = [1.0] * 6 + [0.2] * 6
    baseline = build_baseline(*levels)
    cases = tuple(
        replace(
            case,
            status="passed",
            metric_fingerprints={METRIC: "m", "own": "o"},
            runs=tuple(replace(run, scores={**run.scores, "own": 1.0}) for run in case.runs),
        )
        for case in baseline.cases
    )
    folder = write_project(tmp_path, replace(baseline, cases=cases))
    rules = json.loads((folder / "evalgate.json").read_text())
    rules["criteria"] = {METRIC: {"threshold": 0.8, "gates": False}, "own": 1.0}
    rules["custom_metrics"] = {"own": {"entry": "own.py:score"}}
    (folder / "evalgate.json").write_text(json.dumps(rules))
    assert main(["history", "-C", str(folder), "--out", "site"]) == 0, capsys.readouterr().err
    page = (folder / "site/index.html").read_text("utf-8")
    assert "4 of 4 cases passed" in page
    assert "failing on" not in page
    assert page.count(">4 of 4</td>") == len(levels)


def test_thresholds_that_are_not_known_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_project(tmp_path, build_baseline(0.85, 0.9))
    (folder / "test_config.json").write_text(json.dumps({"criteria": {METRIC: 0.8}}))
    (folder / "evalgate.json").write_text('{"version": 1, "gate": {"baseline": "b.json"}}')
    said = f"No threshold of `{METRIC}` is known here, so runs below `gate.statistics.pass_score` (1) count as failed."
    for command in (["history", "--out", "site"], ["flaky"]):
        assert main([*command, "-C", str(folder)]) == 0
        assert said in capsys.readouterr().out
        known = [*command, "-C", str(folder), "--thresholds", "test_config.json", "--to", "b.json"]
        if command == ["flaky"]:
            assert main(known) == 0
            assert said not in capsys.readouterr().out
    page = (folder / "site/index.html").read_text("utf-8")
    assert "or write it under `criteria`." in page


def test_a_crash_is_the_worst_score() -> None:
    old = build_baseline(1.0, 1.0, cases=1)
    crashed = (old.cases[0].runs[0], replace(old.cases[0].runs[1], outcome="crashed", scores={METRIC: None}))
    history = build_history(
        replace(old, cases=(replace(old.cases[0], runs=crashed),)), BaselineThresholds({METRIC: 0.8}), {}, 1.0
    )
    assert history.series[0].values == (1.0, 0.0)
    assert history.passed == ((1, 1), (0, 1))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--repository", "javascript:alert(1)"], "must be an address"),
        (["--to", "no.json"], "there is no baseline yet"),
    ],
)
def test_wrong_input_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    folder = write_project(tmp_path, build_baseline(1.0))
    assert main(["history", "-C", str(folder), *options]) == 2
    assert problem in capsys.readouterr().err
