"""Thresholds, weights and quarantine of single cases hold for stored runs, too, as in a run of the gate."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from evalgate.baselines.serialization import dump_baseline
from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource
from tests.commands import evalgate

METRIC = "response_match_score"

ESTIMATES = {
    "baseline show": ("baseline", "show"),
    "plan": ("plan",),
    "aa": ("aa", "--repeats", "40"),
}
"""Commands that say what the gate would find."""

SMALLEST_DROP = {
    "baseline show": r"Drops of about (\S+) points or more are caught reliably",
    "plan": r"  auto +(0\.\d+) ",
    "aa": r"smallest drop that is caught four times in five: (\S+) points",
}
"""Patterns of the smallest drop that the commands name."""


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


def write_estimate_project(
    folder: Path, *, names: Sequence[str] = ("flaky", "a", "b", "c"), **rules: object
) -> None:
    """Write a baseline of four cases, of which `flaky` fails half of the time, and an eval set with `names`."""
    runs = {
        name: tuple(
            BaselineRun(0, "answered", {METRIC: float(name != "flaky" or at % 2)}, 1.0) for at in range(10)
        )
        for name in ("flaky", "a", "b", "c")
    }
    cases = tuple(
        BaselineCase("shop", name, "passed", "f", {METRIC: "m"}, stored) for name, stored in runs.items()
    )
    source = BaselineSource("2026-11-01T08:00:00+00:00", "1a2b3c4d", "main")
    (folder / "b.json").write_text(dump_baseline(Baseline(cases, (source,), "b.json")), "utf-8")
    turn = {"user_content": {"parts": [{"text": "How much?"}]}}
    eval_set = {
        "eval_set_id": "shop",
        "eval_cases": [{"eval_id": name, "conversation": [turn]} for name in names],
    }
    (folder / "shop.evalset.json").write_text(json.dumps(eval_set), "utf-8")
    gate = {"baseline": "b.json", **({"quarantine": "q.json"} if (folder / "q.json").exists() else {})}
    known = {"version": 1, "eval_sets": ["shop.evalset.json"], "criteria": {METRIC: 0.0}, "gate": gate}
    (folder / "evalgate.json").write_text(json.dumps(known | rules), "utf-8")


def quarantine(folder: Path, name: str, expires: str = "2999-01-01") -> None:
    entry = {"case": name, "owner": "anna", "reason": "moved", "expires": expires}
    (folder / "q.json").write_text(json.dumps([entry]), "utf-8")


def ask(folder: Path, *command: str) -> str:
    ended = evalgate(*command, cwd=folder)
    assert ended.code == 0, ended.err
    return ended.out


def test_estimates_weigh_cases_as_the_gate_does(tmp_path: Path) -> None:
    write_estimate_project(tmp_path)
    plain = {name: ask(tmp_path, *words) for name, words in ESTIMATES.items()}
    write_estimate_project(tmp_path, cases=[{"ids": "flaky", "weight": 5}])
    weighted = {name: ask(tmp_path, *words) for name, words in ESTIMATES.items()}

    assert f"{METRIC}: 0.88 on average of 4 cases" in plain["baseline show"]
    assert f"{METRIC}: 0.69 on average of 4 cases" in weighted["baseline show"]  # (5 * 0.5 + 3) / 8
    assert f"{METRIC}: 0.88 on average, `max_regression` 0.05" in plain["plan"]
    assert f"{METRIC}: 0.69 on average, `max_regression` 0.05" in weighted["plan"]
    for name, pattern in SMALLEST_DROP.items():
        before, after = (float(re.findall(pattern, each[name])[0]) for each in (plain, weighted))
        assert after > before, name
    assert "stored cases" not in "".join((*plain.values(), *weighted.values()))


def test_estimates_leave_out_cases_that_cannot_close_the_gate(tmp_path: Path) -> None:
    quarantine(tmp_path, "flaky")
    write_estimate_project(tmp_path, names=("flaky", "a", "b", "new"))
    said = {name: ask(tmp_path, *words) for name, words in ESTIMATES.items()}

    assert f"{METRIC}: 1.00 on average of 2 cases" in said["baseline show"]
    assert "could break unnoticed" not in said["baseline show"]
    assert f"{METRIC}: 1.00 on average" in said["plan"]
    assert "Planned for 2 cases from b.json" in said["plan"]
    assert re.search(r"^  5 +15 ", said["plan"], re.MULTILINE)  # the quarantined case is run, too
    assert "drawn from 10 stored runs of 2 cases" in said["aa"]
    for text in said.values():
        assert (
            "2 of 4 stored cases count: 1 cannot close the gate (quarantined, or imported and not reviewed yet) "
            "and 1 is no longer in the eval sets."
        ) in text


def test_a_quarantine_that_has_ended_leaves_no_case_out(tmp_path: Path) -> None:
    quarantine(tmp_path, "flaky", expires="2026-01-01")
    write_estimate_project(tmp_path)
    for words in ESTIMATES.values():
        assert "stored cases count" not in ask(tmp_path, *words)


def test_estimates_say_that_the_policies_are_not_known(tmp_path: Path) -> None:
    quarantine(tmp_path, "flaky")
    write_estimate_project(tmp_path, eval_sets=["none.evalset.json"])
    for words in ESTIMATES.values():
        text = ask(tmp_path, *words)
        assert "Weights (`cases`) and `gate.quarantine` do not count in 4 stored cases: " in text
        assert "none.evalset.json" in text
    write_estimate_project(tmp_path, eval_sets=[])
    for words in ESTIMATES.values():
        assert "4 stored cases: the thresholds file lists no `eval_sets`." in ask(tmp_path, *words)


@pytest.mark.parametrize("name", ["aa", "plan"])
def test_a_baseline_without_a_case_of_today_is_refused(tmp_path: Path, name: str) -> None:
    write_estimate_project(tmp_path, names=("new",))
    ended = evalgate(*ESTIMATES[name], cwd=tmp_path)
    assert ended.code == 2
    assert "0 of 4 stored cases count: 4 are no longer in the eval sets." in ended.err


def test_aa_holds_cases_to_their_own_rules(tmp_path: Path) -> None:
    write_estimate_project(tmp_path)
    assert "protected" not in ask(tmp_path, *ESTIMATES["aa"])
    rule = {"ids": "flaky", "protected": True, "criteria": {METRIC: 1.0}}
    write_estimate_project(tmp_path, cases=[rule])
    assert "by a protected case" in ask(tmp_path, *ESTIMATES["aa"])


def write_broken_project(folder: Path, *, broken: int = 5, runs: tuple[int, int] = (10, 10)) -> None:
    """Write a baseline of 20 cases and two gate runs with `runs`, in the second of which `broken` broke."""
    sources = tuple(
        BaselineSource(f"2026-11-{day:02d}T08:00:00+00:00", f"{day:02x}" * 20, "main") for day in (1, 2)
    )
    names = [f"c{number:02d}" for number in range(20)]
    cases = tuple(
        BaselineCase(
            "shop",
            name,
            "failed" if number < broken else "passed",
            "f",
            {METRIC: "m"},
            tuple(
                BaselineRun(source, "answered", {METRIC: float(not source or number >= broken)}, 1.0)
                for source, count in enumerate(runs)
                for _ in range(count)
            ),
        )
        for number, name in enumerate(names)
    )
    write_estimate_project(folder, names=names, criteria={METRIC: 0.8})
    (folder / "b.json").write_text(dump_baseline(Baseline(cases, sources, "b.json")), "utf-8")


BROKE = "5 cases broke on the default branch: only their runs since then count."


def test_estimates_leave_out_the_runs_before_a_break(tmp_path: Path) -> None:
    write_broken_project(tmp_path)
    said = {name: ask(tmp_path, *words) for name, words in ESTIMATES.items()}

    assert f"{METRIC}: 0.75 on average of 20 cases" in said["baseline show"]
    assert "Fail now and then" not in said["baseline show"]
    assert "runs per case: 20" in said["baseline show"]  # what it holds
    assert "Broke on the default branch and not fixed: 5 cases" in said["baseline show"]
    assert f"{METRIC}: 0.75 on average, `max_regression` 0.05" in said["plan"]
    assert "10 to 20 stored runs of a case" in said["plan"]
    assert "drawn from 10 to 20 stored runs of 20 cases" in said["aa"]
    assert "false alarms: 0.0%" in said["aa"]
    for text in said.values():
        assert text.count(BROKE) == 1


@pytest.mark.parametrize(("broken", "planned"), [(10, "up to 5 runs"), (11, "1 run")])
def test_show_takes_the_default_of_runs_from_the_runs_since_a_break(
    tmp_path: Path, broken: int, planned: str
) -> None:
    write_broken_project(tmp_path, broken=broken, runs=(10, 2))
    assert f"with {planned} of each case" in ask(tmp_path, *ESTIMATES["baseline show"])


def test_compare_leaves_out_the_runs_before_a_break_on_both_sides(tmp_path: Path) -> None:
    write_broken_project(tmp_path)
    text = ask(tmp_path, "compare", "b.json", "b.json")
    assert re.search(rf"{METRIC} +0\.75 .* 0\.75 +±0\.00", text)
    assert text.count(BROKE) == 1


def write_worse_baseline(folder: Path) -> None:
    """Write `worse.json`, a copy of the baseline of `write_estimate_project` in which `a` always fails."""
    stored = json.loads((folder / "b.json").read_text("utf-8"))
    for case in stored["cases"]:
        if case["eval_id"] == "a":
            case["runs"] = [{**run, "scores": {METRIC: 0.0}} for run in case["runs"]]
    (folder / "worse.json").write_text(json.dumps(stored), "utf-8")


def test_compare_applies_the_policies_of_today_to_a_baseline(tmp_path: Path) -> None:
    write_estimate_project(tmp_path, criteria={METRIC: 0.8})
    write_worse_baseline(tmp_path)
    plain = evalgate("compare", "b.json", "worse.json", cwd=tmp_path)
    assert plain.code == 1, plain.err
    assert "0.62" in plain.out  # (0.5 + 0 + 1 + 1) / 4

    weight = [{"ids": "a", "weight": 5}]
    write_estimate_project(tmp_path, criteria={METRIC: 0.8}, cases=weight)
    weighted = evalgate("compare", "b.json", "worse.json", cwd=tmp_path)
    assert re.search(rf"{METRIC} +0\.31 .* 0\.94 ", weighted.out)  # 2.5 and 7.5 of 8

    quarantine(tmp_path, "a")
    write_estimate_project(tmp_path, names=("flaky", "a", "b"), criteria={METRIC: 0.8})
    found = evalgate("compare", "b.json", "worse.json", cwd=tmp_path)
    assert found.code == 0, found.out + found.err
    assert "shop/a failed, until 2999-01-01, anna: moved" in found.out
    assert "1 is no longer in the eval sets." in found.out
    assert "worse.json (3 cases) was compared with b.json" in found.out


def test_compare_counts_no_imported_case_of_a_baseline(tmp_path: Path) -> None:
    write_estimate_project(tmp_path, criteria={METRIC: 0.8})
    write_worse_baseline(tmp_path)
    notes = {"cases": {"a": {"status": "observed"}}}
    (tmp_path / "shop.cases.yaml").write_text(json.dumps(notes), "utf-8")
    found = evalgate("compare", "b.json", "worse.json", cwd=tmp_path)
    assert found.code == 0, found.out + found.err


def test_compare_says_that_the_policies_are_not_known(tmp_path: Path) -> None:
    quarantine(tmp_path, "a")
    write_estimate_project(tmp_path, eval_sets=[], criteria={METRIC: 0.8})
    write_worse_baseline(tmp_path)
    found = evalgate("compare", "b.json", "worse.json", cwd=tmp_path)
    assert found.code == 1, found.err
    assert "4 stored cases: the thresholds file lists no `eval_sets`." in found.out


def test_compare_refuses_a_baseline_without_a_case_of_today(tmp_path: Path) -> None:
    write_estimate_project(tmp_path, names=("new",))
    found = evalgate("compare", "b.json", "b.json", cwd=tmp_path)
    assert found.code == 2
    assert "b.json: 0 of 4 stored cases count: 4 are no longer in the eval sets." in found.err


def write_flaky_project(folder: Path, names: Sequence[str], **rules: object) -> None:
    """Write a baseline of six cases that fail every other run, and an eval set with `names`."""
    source = BaselineSource("2026-11-01T08:00:00+00:00", "1a2b3c4d", "main")
    runs = tuple(BaselineRun(0, "answered", {METRIC: float(at % 2)}, 1.0) for at in range(10))
    stored = ("free", "kept", "known", "gone", "new", "c[1]")
    cases = tuple(BaselineCase("shop", name, "failed", "f", {METRIC: "m"}, runs) for name in stored)
    write_estimate_project(folder, names=names, criteria={METRIC: 0.8}, **rules)
    (folder / "b.json").write_text(dump_baseline(Baseline(cases, (source,), "b.json")), "utf-8")


def test_flaky_proposes_only_cases_that_can_be_quarantined(tmp_path: Path) -> None:
    quarantine(tmp_path, "known")
    names = ["free", "kept", "known", "new", "c[1]"]
    write_flaky_project(tmp_path, names, cases=[{"ids": "kept", "protected": True}])
    (tmp_path / "shop.cases.yaml").write_text("cases: {new: {status: observed}}", "utf-8")
    text = ask(tmp_path, "flaky")

    assert text.count("5 of 6 stored cases count: 1 is no longer in the eval sets.") == 1
    assert "gone" not in text
    for name, mark in {"kept": "protected", "known": "quarantined", "new": "not reviewed yet"}.items():
        assert re.search(rf"^ 56% shop:{name}: .* in a row \({mark}\)$", text, re.MULTILINE)
    entries = re.findall(r"^- (.*)", text, re.MULTILINE)
    assert [json.loads(entry)["case"] for entry in entries] == ["shop:free", "shop:c[[]1]"]

    known = json.loads((tmp_path / "q.json").read_text("utf-8"))
    known += [{**json.loads(entry), "owner": "anna"} for entry in entries]
    (tmp_path / "q.json").write_text(json.dumps(known), "utf-8")
    assert "quarantine" not in evalgate("validate", cwd=tmp_path).err
    assert "Entries for gate.quarantine" not in ask(tmp_path, "flaky")


def test_flaky_says_that_protected_and_removed_cases_are_not_known(tmp_path: Path) -> None:
    write_flaky_project(tmp_path, ["free"], eval_sets=["none.evalset.json"])
    text = ask(tmp_path, "flaky")
    assert text.count("Which cases are removed, protected or quarantined is not known: ") == 1
    assert "none.evalset.json" in text
    write_flaky_project(tmp_path, ["free"], eval_sets=[])
    assert "not known" not in ask(tmp_path, "flaky")


def test_lists_of_broken_cases_leave_out_removed_cases(tmp_path: Path) -> None:
    write_broken_project(tmp_path)
    eval_set = json.loads((tmp_path / "shop.evalset.json").read_text("utf-8"))
    eval_set["eval_cases"] = eval_set["eval_cases"][5:]
    (tmp_path / "shop.evalset.json").write_text(json.dumps(eval_set), "utf-8")
    said = {name: ask(tmp_path, *name.split()) for name in ("flaky", "baseline show", "history")}

    for name, text in said.items():
        assert text.count("15 of 20 stored cases count: 5 are no longer in the eval sets.") == 1, name
        assert "failing on main" not in text
    assert "0 of 15 cases flip; 15 always ended the same way." in said["flaky"]
    assert "not fixed" not in said["baseline show"]
    badge = (tmp_path / "evalgate-history/badge.svg").read_text("utf-8")
    assert "15/15 passed" in badge


@pytest.mark.parametrize("name", ["flaky", "history"])
def test_a_history_without_a_case_of_today_is_refused(tmp_path: Path, name: str) -> None:
    write_estimate_project(tmp_path, names=("other",))
    ended = evalgate(name, cwd=tmp_path)
    assert ended.code == 2
    assert "b.json: 0 of 4 stored cases count: 4 are no longer in the eval sets." in ended.err
