"""Quarantined cases: they run and are reported, and decide nothing."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from evalgate.baselines.history import add_run
from evalgate.config.schema.gate import GateConfig
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    Baseline,
    BaselineSource,
    CaseMetric,
    CasePolicy,
    CaseResult,
    EvalSet,
    GateInput,
    Quarantine,
    RunMetric,
    Status,
)
from evalgate.gating.quarantine import QuarantineFile, QuarantineResult, apply_quarantine, find_recovered
from evalgate.gating.verdict import decide_verdict
from evalgate.metrics.metric_summaries import compute_totals, summarize_metrics
from evalgate.system import git as checkout
from tests.builders import RESPONSE, a_case, a_case_result, a_record, a_run_result

TODAY = date(2026, 11, 21)
SETS = (
    EvalSet("travel", (a_case("paris"), a_case("oslo")), "evals/travel.json"),
    EvalSet("home", (a_case("lights"),)),
)
ABOUT = Quarantine("anna", "flaky search", "2026-12-31")


def entry(case: str = "paris", **changes: str) -> str:
    fields = {"case": case, "owner": "anna", "reason": "flaky search", "expires": "2026-12-31", **changes}
    return "- {" + ", ".join(f"{key}: {value!r}" for key, value in fields.items() if value != "-") + "}\n"


def read(
    folder: Path,
    text: str,
    *,
    protected: tuple[tuple[str, str], ...] = (),
    environ: Mapping[str, str] | None = None,
    is_part: bool = False,
) -> QuarantineResult:
    (folder / "q.yaml").write_text(text, encoding="utf-8")
    policies = {key: CasePolicy(protected=True) for key in protected}
    return apply_quarantine(
        QuarantineFile(folder, "q.yaml"), SETS, policies, today=TODAY, environ=environ or {}, is_part=is_part
    )


@pytest.mark.parametrize(
    ("text", "resting"),
    [
        (entry("paris"), {("travel", "paris")}),
        (entry("travel:*"), {("travel", "paris"), ("travel", "oslo")}),
        (entry("evals/travel.json:oslo"), {("travel", "oslo")}),
        (
            entry("*") + entry("oslo", owner="ben"),
            {("travel", "paris"), ("travel", "oslo"), ("home", "lights")},
        ),
        (entry(expires="2026-11-21"), {("travel", "paris")}),
        ("[]", set()),
        ("", set()),
    ],
)
def test_which_cases_rest(tmp_path: Path, text: str, resting: set[tuple[str, str]]) -> None:
    found = read(tmp_path, text)
    assert {key for key, policy in found.case_policies.items() if policy.quarantine} == resting
    assert found.notices == ()


def test_what_is_said_of_a_resting_case(tmp_path: Path) -> None:
    assert read(tmp_path, entry()).case_policies["travel", "paris"].quarantine == ABOUT


def test_an_entry_that_expired_gates_again_and_is_said_aloud(tmp_path: Path) -> None:
    found = read(tmp_path, entry(expires="2026-11-20"))
    assert found.case_policies == {}
    assert found.notices == (
        "The quarantine of paris ended on 2026-11-20: it gates again. anna mends it, or says until when.",
    )


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (entry(owner="-"), ["q.yaml:1:3: `[0].owner` is missing"]),
        (entry(reason=" "), ["q.yaml:1:34: `[0].reason` must not be empty"]),
        (entry() + entry(expires="-"), ["q.yaml:2:3: `[1].expires` is missing"]),
        (entry(expires="soon"), ["`[0].expires`"]),
        (entry(until="2027"), ["is not a known key"]),
        (entry("rome") + entry("milan"), ["q.yaml:1:4: no case is called `rome`", "q.yaml:2:4: no case is called `milan`"]),
        ("paris: true", ["must be a list"]),
        (entry("oslo"), ["q.yaml:1:4: `oslo` must never fail (`protected`), so it cannot be quarantined"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path, text, protected=(("travel", "oslo"),))
    for problem in problems:
        assert problem in str(caught.value)


def test_an_entry_may_speak_of_cases_that_are_not_run_now(tmp_path: Path) -> None:
    assert read(tmp_path, entry("rome"), is_part=True) == QuarantineResult({})


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, check=True)


PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}


def test_a_change_cannot_excuse_its_own_cases(tmp_path: Path) -> None:
    """What GitHub checks out for a pull request is its merge into the base branch."""
    git(tmp_path, "init", "-q")
    (tmp_path / "q.yaml").write_text(entry("oslo"), encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "base")
    git(tmp_path, "checkout", "-q", "-b", "change")
    (tmp_path / "q.yaml").write_text(entry("oslo") + entry("paris"), encoding="utf-8")
    git(tmp_path, "commit", "-q", "-a", "-m", "excuse paris")
    alone = read(tmp_path, entry("oslo") + entry("paris"), environ=PULL_REQUEST)
    assert (alone.is_verified, alone.notices) == (False, ())
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "merge", "-q", "--no-ff", "change")
    made = {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_SHA": checkout.run_git(tmp_path, "rev-parse", "HEAD")}
    merged = read(tmp_path, entry("oslo") + entry("paris"), environ=PULL_REQUEST | made)
    assert merged.is_verified
    assert set(merged.case_policies) == {("travel", "oslo")}
    assert merged.notices == ("1 quarantine of this change will count when it is merged: paris.",)
    assert set(read(tmp_path, entry("paris"), environ={}).case_policies) == {("travel", "paris")}


def case(eval_id: str, score: float, *, rests: bool = False) -> CaseResult:
    status: Status = "passed" if score >= 0.5 else "failed"
    metric = CaseMetric(RESPONSE, score, 0.5, status)
    run = a_run_result(metrics=(RunMetric(RESPONSE, score, status),))
    found = a_case_result(eval_id, status, metrics=(metric,), runs=(run,))
    return replace(found, quarantine=ABOUT if rests else None)


def evidence(*cases: CaseResult) -> GateInput:
    return GateInput(summarize_metrics(cases), cases, compute_totals(cases))


def test_a_resting_case_is_part_of_no_mean_and_no_count() -> None:
    found = evidence(case("paris", 1.0), case("oslo", 0.0, rests=True))
    assert [(metric.score, metric.n) for metric in found.metrics] == [(1.0, 1)]
    verdict = decide_verdict(found, GateConfig(max_failed_cases=0))
    assert verdict.reasons == ("1 case passed and every metric meets its threshold; 1 quarantined.",)
    assert decide_verdict(evidence(case("paris", 1.0), case("oslo", 0.0)), GateConfig()).status == "fail"


def test_a_resting_crash_closes_nothing() -> None:
    crash = replace(
        case("oslo", 0.0, rests=True),
        status="errored",
        runs=(a_run_result(outcome="crashed"),),
        metrics=(CaseMetric(RESPONSE, None, 0.5, "errored", "no"),),
    )
    assert decide_verdict(evidence(case("paris", 1.0), crash, crash), GateConfig()).status == "pass"


def test_all_at_rest_is_never_green() -> None:
    verdict = decide_verdict(evidence(case("oslo", 1.0, rests=True)), GateConfig())
    assert (verdict.exit_code, verdict.reasons) == (
        3,
        ("No case was evaluated: all of them are quarantined.",),
    )


def history(*scores: float) -> Baseline:
    baseline: Baseline | None = None
    for day, score in enumerate(scores):
        source = BaselineSource(f"2026-11-{day:02d}T00:00:00Z", digest=str(day))
        baseline = add_run(baseline, a_record(case("oslo", score)), source)
    assert baseline is not None
    return baseline


@pytest.mark.parametrize(
    ("scores", "over"),
    [([0.0, *[1.0] * 10], True), ([*[1.0] * 9, 0.0], False), ([1.0] * 9, False), ([0.5] * 10, True)],
)
def test_a_quarantine_that_is_over_is_said_aloud(scores: list[float], over: bool) -> None:
    found = list(find_recovered([case("oslo", 1.0, rests=True)], history(*scores)))
    told = ["oslo is quarantined and passed its last 10 runs in the baseline: anna can take it out."]
    assert found == (told if over else [])
    assert list(find_recovered([case("oslo", 1.0)], history(*scores))) == []


def test_a_quarantined_case_that_fails_now_has_not_recovered() -> None:
    assert list(find_recovered([case("oslo", 0.0, rests=True)], history(*[1.0] * 10))) == []


def test_a_quarantined_case_or_metric_that_changed_has_not_recovered() -> None:
    rests = case("oslo", 1.0, rests=True)
    other_metrics = tuple(replace(metric, fingerprint="new") for metric in rests.metrics)
    for changed in (replace(rests, fingerprint="new"), replace(rests, metrics=other_metrics)):
        assert list(find_recovered([changed], history(*[1.0] * 10))) == []
