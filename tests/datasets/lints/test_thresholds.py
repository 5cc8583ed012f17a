"""Pairs of settings that contradict each other, and thresholds that decide nothing."""

from pathlib import Path

import pytest

from evalgate.config.loader import load_thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.datasets.lints.thresholds import lint_thresholds

HELD = "{threshold: %s, min_mean: %s}"


@pytest.mark.parametrize(
    ("criterion", "gate", "finding"),
    [
        ("1.0", "{}", ""),
        ("1.0", "{baseline: b.json}", ""),
        ("1.0", "{baseline: b.json, max_failed_cases: 2}", ""),
        ("0.8", "{max_failed_cases: 2}", ""),
        (HELD % (1.0, 0.9), "{baseline: b.json}", ""),
        (HELD % (0.5, 0.8), "{}", ""),
        (HELD % (1.0, 0.9), "{max_failed_cases: 2}", ""),
        ("0.0", "{}", "no score misses the threshold 0 of `m`"),
        ("1.0", "{max_failed_cases: 2}", "`max_failed_cases: 2` allows no failed case"),
        (HELD % (1.0, 0.9), "{}", "`min_mean: 0.9` of `m` decides nothing"),
        (HELD % (1.0, 1.0), "{baseline: b.json}", "also at those that the baseline forgives"),
        (HELD % (1.0, 1.0), "{baseline: b.json, max_regression: 1}", "that the baseline forgives"),
        (HELD % (1.0, 1.0), "{max_failed_cases: 2}", "also at those that `max_failed_cases` forgives"),
        ("{threshold: 1.0, min_mean: 1.0, pass_at_k: 3}", "{}", "also at those that `pass_at_k` forgives"),
    ],
)
def test_what_contradicts_itself_is_found(tmp_path: Path, criterion: str, gate: str, finding: str) -> None:
    (tmp_path / "e.yaml").write_text(f"version: 1\ncriteria:\n  m: {criterion}\ngate: {gate}\n")
    found = list(lint_thresholds(load_thresholds(tmp_path / "e.yaml", "e.yaml")))
    assert len(found) == bool(finding)
    assert not finding or (found[0].startswith("e.yaml:3: ") and finding in found[0])


@pytest.mark.parametrize(
    ("gate", "finding"),
    [
        ("{baseline: b.json, anchor: b.json@v1}", ""),
        ("{baseline: b.json, anchor: b.json}", "`anchor` is the `baseline`"),
        ("{baseline: b.json, anchor: c.json, max_regression: 1}", "`anchor` decides nothing"),
        ("{anchor: {baseline: c.json, max_drop: 1.0}}", "`anchor` decides nothing"),
        ("{anchor: {baseline: c.json, max_regression: 0.1}, max_regression: 1}", ""),
    ],
)
def test_an_anchor_that_moves_or_decides_nothing_is_found(tmp_path: Path, gate: str, finding: str) -> None:
    (tmp_path / "e.yaml").write_text(f"version: 1\ngate: {gate}\n")
    found = list(lint_thresholds(load_thresholds(tmp_path / "e.yaml", "e.yaml")))
    assert [(each.startswith("e.yaml:2: "), finding in each) for each in found] == [(True, True)] * bool(
        finding
    )


@pytest.mark.parametrize(
    ("anchor", "problem"),
    [
        ("{baselin: a.json}", "did you mean `baseline`"),
        ("{baseline: a.json, max_regresion: 0.1}", "did you mean `max_regression`"),
        ("b.json@", "after it a tag, commit or date"),
        ("3", "anchor"),
    ],
)
def test_a_wrong_anchor_is_an_error_at_its_line(tmp_path: Path, anchor: str, problem: str) -> None:
    (tmp_path / "e.yaml").write_text(f"version: 1\ngate:\n  anchor: {anchor}\n")
    with pytest.raises(InvalidInputError, match=r"e.yaml:3") as error:
        load_thresholds(tmp_path / "e.yaml", "e.yaml")
    assert problem in str(error.value).replace("Did", "did")
