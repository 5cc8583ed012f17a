"""The pull request that a job tests and its base commit, for every CI service and kind of checkout."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from evalgate.system.pull_requests import describe_unmerged_change, read_text_at_base

WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"}
QUEUE = {"GITHUB_EVENT_NAME": "merge_group", "GITHUB_REF": "refs/heads/gh-readonly-queue/main/pr-7-0"}


def do(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout.strip()


def write(folder: Path, text: str) -> None:
    (folder / "rules").write_text(text, "utf-8")
    do(folder, "add", ".")
    do(folder, "commit", "-q", "--allow-empty", "-m", text)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """`main` moved on after `change` left it; `change` merged itself once; GitHub merged it into `main`."""
    folder = tmp_path / "origin"
    folder.mkdir()
    do(folder, "init", "-q")
    write(folder, "old")
    do(folder, "checkout", "-q", "-b", "other")
    do(folder, "commit", "-q", "--allow-empty", "-m", "other")
    do(folder, "checkout", "-q", "-b", "change", "main")
    write(folder, "softened")
    do(folder, "merge", "-q", "--no-ff", "-m", "own merge", "other")
    do(folder, "checkout", "-q", "main")
    (folder / "else").write_text("", "utf-8")
    write(folder, "old")
    do(folder, "checkout", "-q", "--detach")
    do(folder, "merge", "-q", "--no-ff", "-m", "GitHub's", "change")
    do(folder, "update-ref", "refs/pull/7/merge", "HEAD")
    return folder


def checked_out(origin: Path, ref: str, depth: int, folder: Path) -> Path:
    """As actions/checkout does it: one ref, so deep, on no branch."""
    folder.mkdir()
    do(folder, "init", "-q")
    do(folder, "remote", "add", "origin", origin.as_uri())
    do(folder, "fetch", "-q", "--no-tags", f"--depth={depth}", "origin", f"+{ref}:refs/remotes/pull/7/merge")
    do(folder, "checkout", "-q", "--detach", "refs/remotes/pull/7/merge")
    return folder


@pytest.mark.parametrize(
    ("depth", "known", "ref", "expected"),
    [
        (1, "GITHUB_SHA", "refs/pull/7/merge", None),
        (2, "GITHUB_SHA", "refs/pull/7/merge", "old"),
        (2, "nothing", "refs/pull/7/merge", None),
        (9, "GITHUB_SHA", "refs/heads/change", None),  # its own merge is no merge into the base
    ],
)
def test_the_base_of_a_merge_that_github_made(
    origin: Path, tmp_path: Path, depth: int, known: str, ref: str, expected: str | None
) -> None:
    made = {known: do(origin, "rev-parse", "refs/pull/7/merge")}
    folder = checked_out(origin, ref, depth, tmp_path / "checkout")
    assert read_text_at_base(folder, "rules", PULL_REQUEST | made) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"pull_request": {"base": {"sha": "MAIN"}}}, "old"),
        ({"merge_group": {"base_sha": "MAIN"}}, "old"),
        ({"pull_request": {"base": {"sha": "0" * 40}}}, None),
        ({"pull_request": {"base": {"sha": "HEAD"}}}, None),
        ({"pull_request": []}, None),
        ({"merge_group": None}, None),
        ([], None),
    ],
)
def test_the_base_that_the_event_names(
    origin: Path, tmp_path: Path, event: object, expected: str | None
) -> None:
    text = json.dumps(event).replace("MAIN", do(origin, "rev-parse", "main"))
    (tmp_path / "event.json").write_text(text, "utf-8")
    folder = checked_out(origin, "refs/heads/change", 9, tmp_path / "checkout")
    do(folder, "fetch", "-q", "origin", "main")
    environ = PULL_REQUEST | {"GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    assert read_text_at_base(folder, "rules", environ) == expected


def test_a_merge_queue_may_squash(origin: Path, tmp_path: Path) -> None:
    do(origin, "checkout", "-q", "main")
    base = do(origin, "rev-parse", "HEAD")
    write(origin, "softened")
    do(origin, "update-ref", QUEUE["GITHUB_REF"], "HEAD")
    (tmp_path / "event.json").write_text(json.dumps({"merge_group": {"base_sha": base}}), "utf-8")
    folder = checked_out(origin, QUEUE["GITHUB_REF"], 2, tmp_path / "checkout")
    made = {
        "GITHUB_SHA": do(folder, "rev-parse", "HEAD"),
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
    }
    assert read_text_at_base(folder, "rules", QUEUE | made) == "old"


# `main` moved on after the change branched off: stand-ins for the two commits, which have other rules.
GITLAB_SHAS = {
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "refs/remotes/pull/7/merge^1",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": "refs/remotes/pull/7/merge^2",
}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"CI_MERGE_REQUEST_EVENT_TYPE": "merged_result"}, "old"),
        ({"CI_MERGE_REQUEST_EVENT_TYPE": "detached"}, None),
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": "refs/remotes/pull/7/merge^1"}, "old"),
        (GITLAB_SHAS | {"CI_MERGE_REQUEST_EVENT_TYPE": "merged_result"}, "old"),
        (GITLAB_SHAS | {"CI_MERGE_REQUEST_EVENT_TYPE": "merge_train"}, "old"),
        (GITLAB_SHAS | {"CI_MERGE_REQUEST_EVENT_TYPE": "detached"}, "softened"),
    ],
)
def test_merge_requests_of_gitlab(
    origin: Path, tmp_path: Path, environ: Mapping[str, str], expected: str | None
) -> None:
    folder = checked_out(origin, "refs/pull/7/merge", 2, tmp_path / "checkout")
    made = {"CI_COMMIT_SHA": do(folder, "rev-parse", "HEAD")}
    assert read_text_at_base(folder, "rules", {**environ, **made}) == expected


# --- other services -----------------------------------------------------------------------------------------

AZURE = {"BUILD_REASON": "PullRequest", "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main"}
AZURE_OF_GITHUB = {"BUILD_REASON": "PullRequest", "SYSTEM_PULLREQUEST_TARGETBRANCH": "main"}
AZURE_UNNAMED = {"BUILD_REASON": "PullRequest", "SYSTEM_PULLREQUEST_TARGETBRANCH": "$(System.PullRequest.X)"}
AZURE_MERGE = {"BUILD_SOURCEBRANCH": "refs/pull/7/merge", "BUILD_SOURCEVERSION": "HEAD"}
BITBUCKET = {"BITBUCKET_PR_ID": "7", "BITBUCKET_PR_DESTINATION_BRANCH": "main"}
JENKINS = {"CHANGE_ID": "7", "CHANGE_TARGET": "main"}
BUILDKITE = {"BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}
FETCHED = ["+refs/heads/main:refs/remotes/origin/main"]


@pytest.mark.parametrize(
    ("environ", "ref", "depth", "fetched", "expected"),
    [
        (AZURE, "refs/pull/7/merge", 1, [], None),
        (AZURE | AZURE_MERGE, "refs/pull/7/merge", 1, [], None),
        (AZURE | AZURE_MERGE, "refs/pull/7/merge", 2, [], "old"),
        (AZURE_UNNAMED | AZURE_MERGE, "refs/pull/7/merge", 2, [], "old"),
        (AZURE | AZURE_MERGE | {"BUILD_SOURCEBRANCH": "refs/heads/change"}, "refs/heads/change", 9, [], None),
        (AZURE, "refs/pull/7/merge", 1, FETCHED, "old"),
        (AZURE_OF_GITHUB, "refs/pull/7/merge", 1, FETCHED, "old"),
        (BITBUCKET, "refs/heads/change", 50, [], None),  # its first parent is the change's own
        (BITBUCKET, "refs/heads/change", 1, FETCHED, "old"),
        (BITBUCKET | {"BITBUCKET_PR_DESTINATION_COMMIT": "MAIN"}, "refs/pull/7/merge", 2, [], "old"),
        (BITBUCKET | {"BITBUCKET_PR_DESTINATION_COMMIT": "MAIN"}, "refs/heads/change", 1, [], None),
        (BITBUCKET | {"BITBUCKET_PR_DESTINATION_COMMIT": "HEAD"}, "refs/heads/change", 9, [], None),
        (JENKINS, "refs/pull/7/merge", 9, [], None),  # Jenkins may merge either way round
        (JENKINS, "refs/heads/change", 1, FETCHED, "old"),
        (BUILDKITE, "refs/heads/change", 9, [], None),
        (BUILDKITE, "refs/heads/change", 1, FETCHED, "old"),
        (BUILDKITE | {"BUILDKITE_PULL_REQUEST": "false"}, "refs/heads/change", 1, FETCHED, None),
    ],
)
def test_the_base_as_other_services_name_it(
    origin: Path,
    tmp_path: Path,
    environ: dict[str, str],
    ref: str,
    depth: int,
    fetched: list[str],
    expected: str | None,
) -> None:
    folder = checked_out(origin, ref, depth, tmp_path / "checkout")
    for each in fetched:
        do(folder, "fetch", "-q", "--depth=1", "origin", each)
    if "BUILD_SOURCEVERSION" in environ:
        environ = environ | {"BUILD_SOURCEVERSION": do(folder, "rev-parse", "HEAD")}
    if environ.get("BITBUCKET_PR_DESTINATION_COMMIT") == "MAIN":
        environ = environ | {"BITBUCKET_PR_DESTINATION_COMMIT": do(origin, "rev-parse", "main")[:12]}
    assert read_text_at_base(folder, "rules", environ) == expected


def test_a_short_hash_is_no_name_of_a_tag(origin: Path, tmp_path: Path) -> None:
    short = do(origin, "rev-parse", "main")[:12]
    folder = checked_out(origin, "refs/pull/7/merge", 2, tmp_path / "checkout")
    do(folder, "tag", short, "HEAD")  # the change's own
    assert read_text_at_base(folder, "rules", BITBUCKET | {"BITBUCKET_PR_DESTINATION_COMMIT": short}) == "old"
    do(folder, "tag", "f" * 12, "HEAD")
    assert (
        read_text_at_base(folder, "rules", BITBUCKET | {"BITBUCKET_PR_DESTINATION_COMMIT": "f" * 12}) is None
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (AZURE, "a pull request"),
        ({"BUILD_REASON": "IndividualCI"}, ""),
        (BITBUCKET, "a pull request"),
        (JENKINS, "a pull request"),
        ({"BRANCH_NAME": "main"}, ""),
        (BUILDKITE, "a pull request"),
        ({"BUILDKITE_PULL_REQUEST": "false"}, ""),
        ({"CI_MERGE_REQUEST_IID": "3"}, "a merge request"),
        ({}, ""),
    ],
)
def test_what_is_not_merged(environ: dict[str, str], expected: str) -> None:
    assert describe_unmerged_change(environ) == expected
