"""Merge queue, auto-merge and history page: the workflows around the gate, run by `act`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.act import PULL_REQUEST, Act, sample, shims
from tests.e2e.checkouts import add_workflow, commit, git
from tests.e2e.containers import copy_of_sample
from tests.github.world import HEAD_SHA, REPOSITORY

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("act_alone")]


def test_a_merge_queue_is_gated_by_the_rules_of_the_commit_before_it(act: Act, tmp_path: Path) -> None:
    """The change breaks the agent and lowers the thresholds; the queue's entry is one squashed commit."""
    text = sample("evalgate")
    folder = copy_of_sample(tmp_path / "theirs")
    add_workflow(folder, text)
    commit(folder)
    base = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "-b", "gh-readonly-queue/main/pr-7")
    copy_of_sample(tmp_path / "spoilt", spoilt=True)
    (folder / "prompt.txt").write_bytes((tmp_path / "spoilt/prompt.txt").read_bytes())
    rules = folder / "evalgate.yaml"
    rules.write_text(rules.read_text("utf-8").replace("threshold: 1.0", "threshold: 0.0"), "utf-8")
    git(folder, "commit", "-q", "-a", "-m", "Soften")
    queue = {
        "action": "checks_requested",
        "merge_group": {
            "base_ref": "refs/heads/main",
            "base_sha": base,
            "head_ref": "refs/heads/gh-readonly-queue/main/pr-7",
            "head_sha": git(folder, "rev-parse", "HEAD"),
        },
        "repository": PULL_REQUEST["repository"],
    }

    run = act.run(folder, "merge_group", queue, *shims(text))

    assert run.results == {"evalgate": "failure"}, run.log
    assert "This change edits evalgate.yaml, but the gate goes" in run.summaries.replace("`", ""), (
        run.summaries
    )


GH = """\
#!/bin/sh
case "$1" in
api) cat /tmp/required ;;
*) echo "called: $*" ;;
esac
"""


@pytest.mark.parametrize(
    ("label", "repository", "required", "result"),
    [
        ("merge when green", REPOSITORY, "lint\nevalgate\n", "success"),
        ("merge when green", REPOSITORY, "evalgate-docs\n", "failure"),
        ("merge when green", "eve/demo", "evalgate\n", None),
    ],
)
def test_a_labelled_pull_request_is_merged_only_if_the_gate_is_required(
    act: Act, tmp_path: Path, label: str, repository: str, required: str, result: str | None
) -> None:
    """A stand-in takes the place of GitHub's command `gh`, so this shows its arguments and not the merge."""
    (tmp_path / "gh").write_text(GH, "utf-8")
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "required").write_text(required, "utf-8")
    pull: Mapping[str, Any] = PULL_REQUEST["pull_request"]
    head = {**pull["head"], "repo": {"full_name": repository}}
    url = f"https://github.com/{REPOSITORY}/pull/7"
    payload = {**PULL_REQUEST, "action": "labeled", "label": {"name": label}}
    payload["pull_request"] = {**pull, "head": head, "html_url": url}
    folder = tmp_path / "theirs"
    add_workflow(folder, sample("evalgate-auto-merge"))
    commit(folder)
    mounts = (f"{tmp_path}/gh:/usr/local/bin/gh", f"{tmp_path}/required:/tmp/required")

    run = replace(act, mounts=mounts).run(folder, "pull_request", payload)

    assert run.results.get("auto-merge") in {result, "skipped" if result is None else result}, run.log
    merged = f"called: pr merge {url} --auto --squash --match-head-commit {HEAD_SHA}"
    assert (merged in run.log) == (result == "success"), run.log


def test_the_history_page_is_built_from_the_baseline_branch(act: Act, tmp_path: Path, origin: str) -> None:
    text = sample("evalgate-history")
    saving = sample("evalgate-baseline")
    folder = copy_of_sample(tmp_path / "theirs")
    rules = folder / "evalgate.yaml"
    kept = rules.read_text("utf-8").replace(".evalgate/baseline.json", "branch:evalgate-baseline")
    rules.write_text(kept, "utf-8")
    add_workflow(folder, saving, "baseline")
    add_workflow(folder, text, "history")
    commit(folder)
    git(folder, "remote", "add", "origin", origin)
    push = {"ref": "refs/heads/main", "repository": PULL_REQUEST["repository"]}
    saved = act.run(folder, "push", push, "-W", ".github/workflows/baseline.yml", *shims(saving))
    assert saved.results == {"gate": "success", "baseline": "success"}, saved.log

    chosen = ("-W", ".github/workflows/history.yml", "-j", "build")
    run = act.run(folder, "workflow_dispatch", push, *chosen, *shims(text))

    assert run.results == {"build": "success"}, run.log
    (page,) = act.folder.glob("artifacts/*/github-pages/index.html")
    assert git(folder, "rev-parse", "--short=12", "HEAD") in page.read_text("utf-8")
    assert (page.parent / "badge.svg").is_file()
