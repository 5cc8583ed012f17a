"""Workflows that use the action, run by `act`: those that users copy, as they are, and our own."""

import io
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import ROOT
from tests.e2e.act import PULL_REQUEST, Act, Workflow, github, instead_of, sample, shims
from tests.e2e.checkouts import add_workflow, commit, git, sample_with, source
from tests.e2e.containers import SAMPLE, copy_of_sample
from tests.github.world import REPOSITORY, Artifact, Run

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("act_alone")]

MERGE_GROUP = {
    "merge_group": {"base_ref": "refs/heads/main", "base_sha": "0" * 40, "head_ref": "refs/heads/gh-x"},
    "repository": PULL_REQUEST["repository"],
}
REPORTS = re.compile(
    r"^kept evalgate-report/: comment\.md .*\bjunit\.xml report\.html results\.json$", re.MULTILINE
)


@pytest.mark.parametrize(
    ("event", "payload", "spoilt", "result"),
    [
        ("pull_request", PULL_REQUEST, False, "success"),
        ("pull_request", PULL_REQUEST, True, "failure"),
        ("merge_group", MERGE_GROUP, True, "failure"),
    ],
)
def test_the_workflow_that_users_copy_is_as_green_as_the_agent(
    act: Act, tmp_path: Path, event: str, payload: Mapping[str, object], spoilt: bool, result: str
) -> None:
    text = sample("evalgate")
    folder = sample_with(tmp_path / "theirs", text, spoilt=spoilt)

    run = act.run(folder, event, payload, *shims(text))

    assert (run.code, run.results) == (int(spoilt), {"evalgate": result}), run.log
    assert REPORTS.search(run.log)
    assert "tool_trajectory_avg_score" in run.summaries


OUTPUTS = """\
on: pull_request
permissions: {}
jobs:
  gate:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - id: gate
        uses: org/evalgate@v1
        with:
          working-directory: desk
          comment: "true"
      - id: after
        if: always()
        env:
          GATE: ${{ toJSON(steps.gate) }}
        run: echo "said gate=$(jq -c . <<<"$GATE")"
"""


@pytest.mark.parametrize("token", ["", "ghs_reader"])
def test_later_steps_know_the_verdict_though_nothing_can_be_posted(
    act: Act, tmp_path: Path, token: str
) -> None:
    copy_of_sample(tmp_path / "theirs/desk", spoilt=True)
    add_workflow(tmp_path / "theirs", OUTPUTS)
    folder = commit(tmp_path / "theirs")

    with github() as (hub, options):
        hub.world.grants["ghs_reader"] = hub.world.grants["ghs_writer"].__class__(writes=frozenset())
        run = act.run(folder, "pull_request", PULL_REQUEST, *options, token=token)

    assert (run.steps["gate"], run.steps["after"]) == ("failure", "success"), run.log
    gate = run.said["gate"]
    assert gate["outcome"] == "failure"
    assert (gate["outputs"]["verdict"], gate["outputs"]["exit-code"]) == ("fail", "1")
    assert gate["outputs"]["results"] == "desk/evalgate-report/results.json"
    assert hub.world.comment_bodies() == []
    assert "The comment was not posted" in run.summaries
    assert "The verdict stands" in run.log


def test_the_default_branch_keeps_the_baseline_that_pull_requests_are_held_to(
    act: Act, tmp_path: Path, origin: str
) -> None:
    text = sample("evalgate-baseline")
    folder = copy_of_sample(tmp_path / "theirs")
    rules = folder / "evalgate.yaml"
    rules.write_text(
        rules.read_text("utf-8").replace(".evalgate/baseline.json", "branch:evalgate-baseline"), "utf-8"
    )
    add_workflow(folder, text, "baseline")
    add_workflow(folder, sample("evalgate"))
    commit(folder)
    git(folder, "remote", "add", "origin", origin)
    push = {"ref": "refs/heads/main", "repository": PULL_REQUEST["repository"]}

    for event in ("push", "schedule", "workflow_dispatch"):
        run = act.run(folder, event, push, "-W", ".github/workflows/baseline.yml", *shims(text))
        assert run.results == {"gate": "success", "baseline": "success"}, run.log
    theirs = act.run(
        folder, "pull_request", PULL_REQUEST, "-W", ".github/workflows/gate.yml", *shims(sample("evalgate"))
    )

    served = tmp_path / "served/origin.git"
    assert git(served, "rev-list", "--count", "evalgate-baseline") == "3"
    kept = json.loads(git(served, "show", "evalgate-baseline:baseline.json"))
    assert {source["commit"] for source in kept["sources"]} == {git(folder, "rev-parse", "HEAD")}
    assert "branch:evalgate-baseline" in theirs.summaries


def test_the_default_branch_keeps_an_artifact_that_pull_requests_are_held_to(
    act: Act, tmp_path: Path
) -> None:
    text = sample("evalgate-artifact")
    folder = copy_of_sample(tmp_path / "theirs")
    rules = folder / "evalgate.yaml"
    kept = rules.read_text("utf-8").replace(".evalgate/baseline.json", "artifact:evalgate-baseline")
    rules.write_text(kept, "utf-8")
    add_workflow(folder, text)
    commit(folder)
    ref = f"GITHUB_WORKFLOW_REF={REPOSITORY}/.github/workflows/evalgate.yml@refs/heads/main"
    push = {"ref": "refs/heads/main", "repository": PULL_REQUEST["repository"]}
    accepted = {**push, "inputs": {"accept": 'shorter "answers" $(id)'}}

    with github() as (hub, options):

        def run(event: str, payload: Mapping[str, object], number: int) -> Workflow:
            numbered = ("--env", f"GITHUB_RUN_ID={number}", "--env", ref)
            found = act.run(folder, event, payload, *options, *numbered, *shims(text), token="ghs_writer")
            assert found.results == {"evalgate": "success"}, found.log
            return found

        def keep(number: int) -> dict[str, Any]:
            """What a run kept, as GitHub has it from now on."""
            file = tmp_path / f"artifacts/{number}/evalgate-baseline/baseline.json"
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.write(file, "baseline.json")
            hub.world.runs.append(Run(number))
            found = Artifact(hub.world.next_id(), "evalgate-baseline", packed.getvalue(), number)
            hub.world.artifacts.append(found)
            baseline: dict[str, Any] = json.loads(file.read_text("utf-8"))
            return baseline

        hub.world.runs.append(Run(30, event="pull_request", branch="first", conclusion=None))
        run("push", push, 31)
        assert len(keep(31)["sources"]) == 1
        run("push", push, 32)
        assert len(keep(32)["sources"]) == 2
        told = run("pull_request", PULL_REQUEST, 33).summaries
        assert re.search(
            r"since the baseline `artifact:evalgate-baseline[^`]*` \(run 32[,)].*2 gate runs", told
        ), told
        run("workflow_dispatch", accepted, 34)
        assert [each["accepted"] for each in keep(34)["sources"]] == ['shorter "answers" $(id)']


CALLER = """\
on: pull_request
permissions: {}
jobs:
  evalgate:
    permissions:
      contents: read
      pull-requests: write
    uses: org/evalgate/.github/workflows/evalgate.yml@v1
    with:
      comment: true
      working-directory: desk
      env: DESK_API_KEY
    secrets:
      variables: |
        DESK_API_KEY=sk-desk-41c7d2
        not a variable
  after:
    needs: evalgate
    if: always()
    runs-on: ubuntu-latest
    steps:
      - env:
          OUTPUTS: ${{ toJSON(needs.evalgate) }}
        run: echo "said called=$(jq -c . <<<"$OUTPUTS")"
"""


@pytest.mark.parametrize("spoilt", [False, True])
def test_a_repository_calls_the_gate_as_a_workflow(act: Act, tmp_path: Path, spoilt: bool) -> None:
    copy_of_sample(tmp_path / "theirs/desk", spoilt=spoilt)
    add_workflow(tmp_path / "theirs", CALLER)
    folder = commit(tmp_path / "theirs")
    actions = shims((ROOT / ".github/workflows/evalgate.yml").read_text("utf-8"))

    with github() as (hub, options):
        run = act.run(folder, "pull_request", PULL_REQUEST, *options, *actions, token="ghs_writer")

    assert run.code == int(spoilt), run.log
    if not spoilt:  # act starts no job after a workflow that failed, whatever its condition
        assert run.said["called"] == {"result": "success", "outputs": {"verdict": "pass", "exit-code": "0"}}
    (body,) = hub.world.comment_bodies()
    assert ("Gate closed" in body) == spoilt
    assert len(list(act.folder.glob("artifacts/*/evalgate-report/report.html"))) == 1
    assert "wanted for the agent" not in body  # as a notice says of a variable that is not set
    assert "sk-desk-41c7d2" not in run.log


def test_suites_share_a_comment_and_a_second_attempt_edits_it(act: Act, tmp_path: Path) -> None:
    text = sample("evalgate-suites")
    folder = copy_of_sample(tmp_path / "theirs")
    shutil.copy(folder / "evals/refunds.evalset.json", folder / "evals/orders.evalset.json")
    add_workflow(folder, text)
    commit(folder)

    with github() as (hub, options):
        for attempt in ("1", "2"):
            again = ("--env", f"GITHUB_RUN_ATTEMPT={attempt}", "--env", "GITHUB_RUN_ID=8")
            run = act.run(folder, "pull_request", PULL_REQUEST, *options, *again, token="ghs_writer")
            assert set(run.results.values()) == {"success"}, run.log
            (body,) = hub.world.comment_bodies()
            assert body.count("Gate open") == 2
            assert all(suite in body for suite in ("orders", "refunds"))


SUITES = """
suites:
  refunds: {eval_sets: [evals/refunds.evalset.json], affects: [prompt.txt]}
  orders: {eval_sets: [evals/orders.evalset.json], affects: [orders/**]}
"""


def test_a_pull_request_runs_the_suites_that_it_concerns(act: Act, tmp_path: Path) -> None:
    """It breaks one of two suites; the job that a repository requires fails as well."""
    text = sample("evalgate-affected")
    folder = copy_of_sample(tmp_path / "theirs")
    refunds = (folder / "evals/refunds.evalset.json").read_text("utf-8")
    (folder / "evals/orders.evalset.json").write_text(refunds.replace('"refunds"', '"orders"'), "utf-8")
    rules = folder / "evalgate.yaml"
    rules.write_text(rules.read_text("utf-8") + SUITES, "utf-8")
    add_workflow(folder, text)
    commit(folder)
    git(folder, "checkout", "-q", "-b", "change")
    prompt = folder / "prompt.txt"
    prompt.write_text(f"{prompt.read_text('utf-8').splitlines()[0]}\n", "utf-8")
    git(folder, "commit", "-q", "-a", "-m", "Edit the prompt")
    git(folder, "checkout", "-q", "--detach", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "Merge", "change")

    with github() as (hub, options):
        run = act.run(folder, "pull_request", PULL_REQUEST, *options, *shims(text), token="ghs_writer")

    assert run.results == {"affected": "success", "refunds": "failure", "evalgate": "failure"}, run.log
    (body,) = hub.world.comment_bodies()
    assert "Gate closed" in body
    assert "orders" not in body


def test_shards_are_put_together_to_one_verdict(act: Act, tmp_path: Path) -> None:
    text = sample("evalgate-shards")
    folder = sample_with(tmp_path / "theirs", text, spoilt=True)

    with github() as (hub, options):
        run = act.run(folder, "pull_request", PULL_REQUEST, *options, *shims(text), token="ghs_writer")

    results = {name: result for name, result in run.results.items() if not name.startswith("shard")}
    assert results == {"evalgate": "failure"}, run.log
    (body,) = hub.world.comment_bodies()
    assert "Gate closed" in body
    assert "4 cases" in body
    assert "`report.html`" in body
    assert len(list(act.folder.glob("artifacts/*/evalgate-report/report.html"))) == 1


COMPOSITE = """\
on: pull_request
permissions: {}
jobs:
  gate:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - run: |
          python3 -m venv "$RUNNER_TEMP/own"
          echo "def test(): return 'of the repository'" > "$("$RUNNER_TEMP/own/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/own.py"
          sed -i '1i import own' agent.py
      - id: gate
        uses: org/evalgate/composite@v1
        with:
          python: ${{ runner.temp }}/own/bin/python
          out: "a folder/reports"
          mask: |
            hunter2000
      - id: after
        if: always()
        env:
          GATE: ${{ toJSON(steps.gate) }}
        run: |
          echo "said gate=$(jq -c . <<<"$GATE")"
          echo "said next=$("$RUNNER_TEMP/evalgate-venv/bin/evalgate" --version | jq -R .)"
"""


def test_the_composite_action_uses_the_environment_of_the_repository(act: Act, tmp_path: Path) -> None:
    ours = source(tmp_path / "ours")
    folder = sample_with(tmp_path / "theirs", COMPOSITE)

    run = act.run(folder, "pull_request", PULL_REQUEST, *instead_of("org/evalgate@v1", ours))

    assert run.results == {"gate": "success"}, run.log
    assert run.said["gate"]["outputs"]["results"] == "a folder/reports/results.json"
    assert run.said["gate"]["outputs"]["verdict"] == "pass"
    assert run.said["next"].startswith("evalgate, version")


def test_our_own_workflow_proves_the_action_on_a_good_and_a_bad_agent(act: Act, tmp_path: Path) -> None:
    """`uses: ./`: act builds the image from the Dockerfile, as the runner does."""
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    folder = source(tmp_path / "ours")
    shutil.copytree(SAMPLE, folder / "samples/order_desk", ignore=shutil.ignore_patterns("evalgate-report"))
    add_workflow(folder, text)

    run = act.run(commit(folder), "pull_request", PULL_REQUEST, "-j", "action", *shims(text))

    assert run.results == {"action": "success"}, run.log
    assert (run.steps["good"], run.steps["bad"]) == ("success", "failure")


@pytest.mark.parametrize(("depth", "verdict"), [(1, "pass"), (2, "fail")])
def test_a_pull_request_that_softens_its_rules(act: Act, tmp_path: Path, depth: int, verdict: str) -> None:
    """Checked out as actions/checkout does it: the merge that GitHub made, on no branch, so deep."""
    made = copy_of_sample(tmp_path / "made", spoilt=True)
    add_workflow(made, OUTPUTS.replace("working-directory: desk", "runs: 1").replace('"true"', '"false"'))
    commit(made)
    git(made, "checkout", "-q", "-b", "change")
    rules = made / "evalgate.yaml"
    softened = re.sub(r"threshold: 1\.0|(?<=score: )0\.8", lambda hit: hit[0][:-3] + "0.0", rules.read_text())
    rules.write_text(softened, "utf-8")
    git(made, "commit", "-q", "-a", "-m", "Soften")
    git(made, "checkout", "-q", "--detach", "main")
    git(made, "merge", "-q", "--no-ff", "-m", "Merge", "change")
    git(made, "update-ref", "refs/pull/7/merge", "HEAD")
    folder = tmp_path / "theirs"
    git(tmp_path, "init", "-q", str(folder))
    merge = "+refs/pull/7/merge:refs/remotes/pull/7/merge"
    git(folder, "fetch", "-q", f"--depth={depth}", made.as_uri(), merge)
    git(folder, "checkout", "-q", "--detach", "refs/remotes/pull/7/merge")

    run = act.run(folder, "pull_request", PULL_REQUEST)

    assert run.said["gate"]["outputs"]["verdict"] == verdict, run.log
    told = (
        "Check out with `fetch-depth: 2`"
        if depth == 1
        else "This change edits evalgate.yaml, but the gate goes"
    )
    assert told.replace("`", "") in run.summaries.replace("\\", "").replace("`", "")
