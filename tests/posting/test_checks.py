"""Check runs, posted to a real server."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.posting import Annotation, Check, Outcome, post_check
from evalgate.posting.checks import outputs
from tests.github.faults import Fault
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, Grant
from tests.posting.conftest import QUICK, account_on

NOTE = Annotation("evals/a.evalset.json", 12, "expected `a`, got `b`", "case-1")


def _check(count: int) -> Check:
    notes = tuple(replace(NOTE, line=number + 1) for number in range(count))
    return Check("evalgate", "failure", "1 case got worse", "# Report", notes)


@pytest.mark.parametrize(("count", "requests"), [(0, 1), (1, 1), (50, 1), (51, 2), (120, 3)])
def test_annotations_go_in_fifties(github: FakeGitHub, count: int, requests: int) -> None:
    outcome = post_check(account_on(github), HEAD_SHA, _check(count), patience=QUICK)
    (number,) = github.world.check_runs
    assert outcome == Outcome("posted", "", f"https://github.com/acme/demo/runs/{number}")
    run = github.world.check_runs[number]
    assert (run["status"], run["conclusion"], run["head_sha"]) == ("completed", "failure", HEAD_SHA)
    assert [note["start_line"] for note in run["annotations"]] == list(range(1, count + 1))
    assert len(github.exchanges) == requests


def test_what_an_annotation_says(github: FakeGitHub) -> None:
    post_check(account_on(github), HEAD_SHA, _check(1), patience=QUICK)
    (run,) = github.world.check_runs.values()
    assert run["annotations"] == [
        {
            "path": "evals/a.evalset.json",
            "start_line": 1,
            "end_line": 1,
            "annotation_level": "failure",
            "message": "expected `a`, got `b`",
            "title": "case-1",
        }
    ]
    assert (run["output"]["title"], run["output"]["summary"]) == ("1 case got worse", "# Report")


@pytest.mark.parametrize(
    "fault", [Fault(status=502), Fault("PATCH", status=500), Fault(cut="before")], ids=repr
)
def test_a_fault_that_passes_is_survived(github: FakeGitHub, fault: Fault) -> None:
    github.faults.append(fault)
    outcome = post_check(account_on(github), HEAD_SHA, _check(60), patience=QUICK)
    assert outcome.kind == "posted"
    (run,) = github.world.check_runs.values()
    assert len(run["annotations"]) == 60


def test_a_token_that_may_not_is_told(github: FakeGitHub) -> None:
    github.world.grants["reader"] = Grant(writes=frozenset({"issues"}))
    outcome = post_check(account_on(github, "reader"), HEAD_SHA, _check(1), patience=QUICK)
    assert outcome.kind == "skipped"
    assert outcome.reason.startswith("GitHub answered 403: Resource not accessible by integration")


def test_a_fault_that_lasts_is_given_up(github: FakeGitHub) -> None:
    github.faults.append(Fault(status=503, times=999))
    outcome = post_check(account_on(github), HEAD_SHA, _check(1), patience=replace(QUICK, total_s=1.5))
    assert outcome == Outcome("failed", "GitHub answered 503: Server Error (given up)")


@given(st.text(), st.text(), st.text(), st.text(), st.integers())
def test_no_text_makes_a_request_that_github_refuses(
    title: str, summary: str, path: str, message: str, line: int
) -> None:
    note = Annotation(path * 300, line, message * 3000, title * 60)
    (made,) = outputs(Check("x", "failure", title * 60, summary * 30_000, (note,)))
    annotation: dict[str, Any] = made["annotations"][0]
    assert 0 < len(made["title"]) <= 255
    assert 0 < len(made["summary"]) <= 65_535
    assert 0 < len(annotation["message"].encode()) <= 65_536
    assert len(annotation.get("title", "")) <= 255
    assert annotation["path"]
    assert annotation["start_line"] >= 1
