"""The thresholds of single cases hold for stored runs, too: in `flaky`, `history` and `baseline show`."""

import json
from pathlib import Path

import pytest

from evalgate.baselines.serialization import dump_baseline
from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource
from tests.commands import evalgate

METRIC = "response_match_score"


def write_project(folder: Path, *, with_eval_set: bool = True) -> None:
    """Write a baseline of two cases that score alike, of which `exact` has a threshold of its own."""
    scores = [0.95, 0.95, 0.95, 0.95, 0.7, 0.7, 0.7, 0.7]
    sources = tuple(
        BaselineSource(f"2026-11-{at + 1:02d}T08:00:00+00:00", f"{at:02x}" * 20, "main")
        for at in range(len(scores))
    )
    runs = tuple(BaselineRun(at, "answered", {METRIC: score}) for at, score in enumerate(scores))
    cases = tuple(
        BaselineCase("shop", eval_id, "passed", "f", {METRIC: "m"}, runs) for eval_id in ("exact", "loose")
    )
    (folder / "b.json").write_text(dump_baseline(Baseline(cases, sources, "b.json")), "utf-8")
    turn = {"user_content": {"parts": [{"text": "How much?"}]}}
    eval_set = {
        "eval_set_id": "shop",
        "eval_cases": [{"eval_id": case.eval_id, "conversation": [turn]} for case in cases],
    }
    if with_eval_set:
        (folder / "shop.evalset.json").write_text(json.dumps(eval_set), "utf-8")
    rules = {
        "version": 1,
        "eval_sets": ["shop.evalset.json"],
        "criteria": {METRIC: 0.6},
        "cases": [{"ids": "shop:exact", "criteria": {METRIC: 0.9}}],
        "gate": {"baseline": "b.json"},
    }
    (folder / "evalgate.json").write_text(json.dumps(rules), "utf-8")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["flaky"], "shop:exact: failing on main since 040404040404 (2026-11-05), which is not flakiness"),
        (["baseline", "show"], "shop/exact: failing on main since 040404040404 (2026-11-05)"),
        (["history"], None),
    ],
)
def test_a_case_is_held_to_its_own_threshold(tmp_path: Path, command: list[str], said: str | None) -> None:
    write_project(tmp_path)
    ended = evalgate(*command, cwd=tmp_path)
    assert ended.code == 0, ended.err
    if said is None:
        page = (tmp_path / "evalgate-history/index.html").read_text("utf-8")
        assert "main since 040404040404" in page
        assert "shop/exact" in page
        assert "shop/loose" not in page
    else:
        assert said in ended.out
    assert "loose: failing" not in ended.out
    assert "do not count here" not in ended.out


@pytest.mark.parametrize("command", [["flaky"], ["baseline", "show"], ["history"]])
def test_eval_sets_that_cannot_be_read_are_named(tmp_path: Path, command: list[str]) -> None:
    write_project(tmp_path, with_eval_set=False)
    secret = "zq8Xv7Lm2Rt5Yp9Kd4Hs"
    rules = (tmp_path / "evalgate.json").read_text("utf-8")
    (tmp_path / "evalgate.json").write_text(
        rules.replace('"shop.evalset', f'"{secret}/shop.evalset'), "utf-8"
    )
    ended = evalgate(*command, cwd=tmp_path, MY_API_KEY=secret)
    assert ended.code == 0, ended.err
    assert "The thresholds of single cases (`cases`) do not count here: " in ended.out
    assert "shop.evalset.json" in ended.out
    pages = [path.read_text("utf-8") for path in tmp_path.glob("evalgate-history/*")]
    assert len(pages) == (2 if command == ["history"] else 0)
    assert secret not in ended.out + ended.err + "".join(pages)
