"""Every recipe of samples/ci: its own lines, run on a good agent, a spoilt one and a broken configuration."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from lxml import etree

from evalgate.ci.comment_sections import read_sections
from tests.e2e.containers import sample
from tests.gitlab.server import FakeGitLab
from tests.recipes.services import (
    RECIPES,
    SERVICES,
    Job,
    annotation,
    azure,
    buildkite,
    gitlab,
    images,
    issues,
    machine,
)

REPORTS = {"comment.md", "gl-code-quality-report.json", "junit.xml", "results.json"}
TESTS = {"gitlab": "junit"}
KEPT = {"gitlab": "paths", "jenkins": "artifacts", "bitbucket": "artifacts", "buildkite": "artifacts"}


def desk(folder: Path, *, spoilt: bool = False, broken: bool = False) -> Path:
    sample(folder, spoilt=spoilt)
    if broken:
        (folder / "evalgate.yaml").write_text("version: 1\ncriteria: {}\nnonsense: true\n", "utf-8")
    return folder


def run(name: str, folder: Path, programs: Path, **environ: str) -> Job:
    return SERVICES[name](machine(folder, programs, **environ))


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(("spoilt", "code"), [(False, 0), (True, 1)], ids=["good", "spoilt"])
def test_the_job_ends_as_the_gate_and_its_reports_are_there(
    tmp_path: Path, name: str, *, spoilt: bool, code: int
) -> None:
    job = run(name, desk(tmp_path / "desk", spoilt=spoilt), tmp_path / "bin")

    assert job.code == code, job.log
    if name in KEPT:
        assert {path.name for path in job.shown[KEPT[name]]} == REPORTS
    if name != "buildkite":
        (junit,) = job.shown[TESTS.get(name, "tests")]
        failures = etree.parse(str(junit)).findall(".//failure")
        assert bool(failures) == bool(code)


PULL_REQUESTS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "azure": (
        ["--depth=2", "origin", "+refs/pull/7/merge:refs/remotes/pull/7/merge"],
        {
            "BUILD_REASON": "PullRequest",
            "BUILD_SOURCEBRANCH": "refs/pull/7/merge",
            "BUILD_SOURCEVERSION": "HEAD",
            "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main",
        },
    ),
    "bitbucket": (["origin"], {"BITBUCKET_PR_ID": "7", "BITBUCKET_PR_DESTINATION_BRANCH": "main"}),
    "buildkite": (
        ["--depth=1", "origin", "refs/pull/7/head"],
        {"BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"},
    ),
    "gitlab": (["origin"], {"CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}),
    "jenkins": (
        ["--depth=1", "origin", "refs/pull/7/head"],
        {"JENKINS_URL": "https://ci.example.com/", "CHANGE_ID": "7", "CHANGE_TARGET": "main"},
    ),
}
"""Service → what it fetches of a pull request, and what it says of it."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_pull_request_cannot_soften_its_own_rules(tmp_path: Path, name: str) -> None:
    origin = desk(tmp_path / "origin", spoilt=True)
    git(origin, "init", "-q")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "Rules")
    git(origin, "checkout", "-q", "-b", "change")
    text = (origin / "evalgate.yaml").read_text("utf-8")
    (origin / "evalgate.yaml").write_text(re.sub(r"(threshold:|_score:) *[\d.]+", r"\1 0.0", text), "utf-8")
    git(origin, "commit", "-q", "-a", "-m", "Soften them")
    git(origin, "update-ref", "refs/pull/7/head", "HEAD")
    git(origin, "checkout", "-q", "--detach", "main")
    git(origin, "merge", "-q", "--no-ff", "-m", "Merge", "change")
    git(origin, "update-ref", "refs/pull/7/merge", "HEAD")
    refs, environ = PULL_REQUESTS[name]
    ours = tmp_path / "ours"
    ours.mkdir()
    git(ours, "init", "-q")
    git(ours, "remote", "add", "origin", origin.as_uri())
    git(ours, "fetch", "-q", *refs)
    of_branch = refs == ["origin"]
    git(ours, "checkout", "-q", "--detach", "refs/remotes/origin/change" if of_branch else "FETCH_HEAD")
    if "BUILD_SOURCEVERSION" in environ:
        environ = {**environ, "BUILD_SOURCEVERSION": git(ours, "rev-parse", "HEAD")}

    job = run(name, ours, tmp_path / "bin", **environ)

    assert job.code == 1, job.log
    assert "This change edits evalgate.yaml, but the gate goes by the version of the base branch" in job.log


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", SERVICES)
def test_a_wrong_configuration_fails_the_job_and_publishes_nothing(tmp_path: Path, name: str) -> None:
    job = run(name, desk(tmp_path / "desk", broken=True), tmp_path / "bin")

    assert job.code == 2, job.log
    assert "nonsense" in job.log
    assert not any(job.shown.values())


@pytest.mark.parametrize(
    ("spoilt", "style", "headline"),
    [(False, "success", "Gate open"), (True, "error", "Gate closed")],
    ids=["good", "spoilt"],
)
def test_buildkite_shows_the_comment_in_the_colour_of_the_verdict(
    tmp_path: Path, *, spoilt: bool, style: str, headline: str
) -> None:
    folder = desk(tmp_path / "desk", spoilt=spoilt)
    on = machine(folder, tmp_path / "bin")
    buildkite(on)

    said = annotation(on)
    assert said is not None
    words, text = said
    assert words == ["annotate", "--context", "evalgate", "--style", style]
    assert text == (folder / "evalgate-report/comment.md").read_text("utf-8")
    assert headline in text


def test_buildkite_annotates_nothing_of_an_earlier_build(tmp_path: Path) -> None:
    folder = desk(tmp_path / "desk", broken=True)
    (folder / "evalgate-report").mkdir()
    (folder / "evalgate-report/comment.md").write_text("the gate is open", "utf-8")
    on = machine(folder, tmp_path / "bin")
    assert buildkite(on).code == 2
    assert annotation(on) is None


def test_jenkins_keeps_nothing_of_an_earlier_build(tmp_path: Path) -> None:
    folder = desk(tmp_path / "desk", broken=True)
    (folder / "evalgate-report").mkdir()
    (folder / "evalgate-report/junit.xml").write_text("<testsuites/>", "utf-8")
    job = SERVICES["jenkins"](machine(folder, tmp_path / "bin"))
    assert (job.code, job.shown) == (2, {"tests": [], "artifacts": []})


@pytest.mark.parametrize(("spoilt", "code"), [(False, 0), (True, 1)], ids=["good", "spoilt"])
def test_an_annotation_that_fails_changes_no_verdict(tmp_path: Path, *, spoilt: bool, code: int) -> None:
    job = run("buildkite", desk(tmp_path / "desk", spoilt=spoilt), tmp_path / "bin", AGENT_CODE="1")
    assert job.code == code, job.log


def test_azure_shows_the_comment_on_the_summary_page(tmp_path: Path) -> None:
    folder = desk(tmp_path / "my desk", spoilt=True)
    job = azure(machine(folder, tmp_path / "bin"))
    assert job.shown["summary"] == [folder / "evalgate-report/comment.md"]
    assert job.shown["summary"][0].is_file()


@pytest.mark.parametrize(
    ("spoilt", "headline"), [(False, "Gate open"), (True, "Gate closed")], ids=["good", "spoilt"]
)
def test_gitlab_shows_a_note_and_each_failing_case(tmp_path: Path, *, spoilt: bool, headline: str) -> None:
    folder = desk(tmp_path / "desk", spoilt=spoilt)
    with FakeGitLab().running() as server:
        environ = server.environ(CI_PROJECT_DIR=str(folder), EVALGATE_GITLAB_TOKEN="glpat-writer")
        job = gitlab(machine(folder, tmp_path / "bin", **environ))
        (body,) = server.bodies()

    assert "The note is posted" in job.log
    (section,) = read_sections(body).values()
    assert headline in section.text
    places = [issue["location"] for issue in issues(job)]
    assert bool(places) == spoilt
    assert all((folder / place["path"]).is_file() and place["lines"]["begin"] > 1 for place in places)


@pytest.mark.parametrize(("spoilt", "code"), [(False, 0), (True, 1)], ids=["good", "spoilt"])
def test_without_a_token_gitlab_has_all_but_the_note(tmp_path: Path, *, spoilt: bool, code: int) -> None:
    folder = desk(tmp_path / "desk", spoilt=spoilt)
    with FakeGitLab().running() as server:
        environ = server.environ(CI_PROJECT_DIR=str(folder), GITLAB_TOKEN="")
        job = gitlab(machine(folder, tmp_path / "bin", **environ))
        assert server.asked == []

    assert job.code == code, job.log
    assert "The note was not posted: there is no token. The verdict stands." in job.log
    assert all(job.shown.values())


def test_every_recipe_is_run_and_names_a_release_of_the_image() -> None:
    assert {path.name for path in RECIPES.iterdir()} == {
        "Jenkinsfile",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "buildkite.yml",
        "gitlab-ci.yml",
    }
    named = dict(images())
    assert named.keys() == {path.name for path in RECIPES.iterdir()}
    assert all(image.startswith("ghcr.io/org/evalgate:v") for image in named.values())
