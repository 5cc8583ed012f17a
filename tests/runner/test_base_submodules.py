"""A pull request cannot soften its rules by another commit of a submodule in which they are."""

import json
import shutil
from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import MetricCode
from evalgate.runner.base_branch import RuleFiles
from evalgate.runner.metric_code import read_metric_code
from evalgate.runner.plan import Plan, build_plan
from evalgate.system.git import is_tracked
from tests.runner.test_base_branch import CASE, PULL_REQUEST, baseline, git, thresholds

FILE_PROTOCOL = ("-c", "protocol.file.allow=always")


def write_shared(folder: Path, least: float, commit: str) -> None:
    rules = json.loads(thresholds(least, baseline="shared/base.json"))
    (folder / "gate.json").write_text(json.dumps(rules))
    (folder / "base.json").write_text(baseline(commit))
    (folder / "metric.py").write_text(f"def score(case, run):\n    return {1 - least}\n")
    (folder / "cases.json").write_text(json.dumps({"eval_set_id": commit, "eval_cases": [CASE]}))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", commit)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the submodule `shared`, of which the checked-out change has another commit."""
    shared, folder = tmp_path / "shared", tmp_path / "repository/desk"
    shared.mkdir()
    git(shared, "init", "-q")
    write_shared(shared, 1.0, "old")
    folder.mkdir(parents=True)
    git(folder.parent, "init", "-q")
    (folder / "a.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    (folder / "link.json").symlink_to("shared/gate.json")
    git(folder.parent, *FILE_PROTOCOL, "submodule", "--quiet", "add", str(shared), "desk/shared")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Rules in a submodule")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    write_shared(shared, 0.1, "new")
    git(folder / "shared", "pull", "-q")
    git(folder, "config", "-f", "../.gitmodules", "submodule.desk/shared.ignore", "all")
    git(folder, "add", "--force", "shared", "../.gitmodules")
    git(folder, "commit", "-q", "-m", "Move on")
    return folder


def plan_with(thresholds_file: str, folder: Path, *eval_sets: str) -> Plan:
    chosen = Overrides(eval_sets=eval_sets, agent="python:a.py:answer", policy="base")
    return build_plan(chosen, thresholds_file=thresholds_file, folder=folder, environ=PULL_REQUEST)


@pytest.mark.parametrize("thresholds_file", ["shared/gate.json", "link.json"])
def test_rules_in_a_submodule_are_the_base_s(desk: Path, thresholds_file: str) -> None:
    plan = plan_with(thresholds_file, desk, "a.json")

    assert plan.suites[0].metrics[0].criterion.threshold == 1.0
    assert f"This change edits {thresholds_file}, but the gate goes by the version" in plan.notices[0]
    assert plan.baseline_store is not None
    found = plan.baseline_store.read()
    assert found is not None
    assert found.sources[0].commit == "old"


def test_a_submodule_without_the_base_s_commit_is_not_taken_for_one_without_rules(
    desk: Path, tmp_path: Path
) -> None:
    base = git(desk / "shared", "rev-parse", "HEAD^").strip()
    for path in (tmp_path / "repository/.git/modules/desk/shared/objects" / base[:2]).iterdir():
        path.unlink()

    with pytest.raises(InvalidInputError) as raised:
        plan_with("shared/gate.json", desk, "a.json")

    assert str(raised.value) == (
        "shared/gate.json: it is in the submodule shared, and git does not know its commit "
        f"{base[:12]}, which the base branch has: check out the submodules with their whole history (GitHub: "
        "`submodules: true` and `fetch-depth: 0`, GitLab: `GIT_SUBMODULE_STRATEGY: normal` and `GIT_DEPTH: 0`, "
        "elsewhere: `git submodule update --init` and `git submodule foreach git fetch --unshallow`)"
    )


def test_eval_sets_in_a_submodule_that_moved_are_told(desk: Path) -> None:
    plan = plan_with("link.json", desk, "shared/cases.json", "a.json")
    (told,) = (each for each in plan.notices if each.startswith("The change brought its own:"))
    assert told.startswith("The change brought its own: shared/cases.json. ")


def read_code(desk: Path) -> tuple[MetricCode, tuple[str, ...]]:
    with RuleFiles(desk, PULL_REQUEST) as rule_files:
        return read_metric_code(rule_files, "shared/metric.py:score", ()), rule_files.notices


def test_a_metric_in_a_submodule_is_the_base_s(desk: Path) -> None:
    code, notices = read_code(desk)
    assert code.files["shared/metric.py"] == b"def score(case, run):\n    return 0.0\n"
    assert notices[0].startswith("This change edits shared/metric.py, which decides: the gate used the")


def test_a_metric_that_a_submodule_did_not_have_is_said(desk: Path) -> None:
    git(desk / "shared", "mv", "metric.py", "moved.py")
    git(desk / "shared", "commit", "-q", "-m", "Another name")
    git(desk, "add", "--force", "shared")
    git(desk, "commit", "-q", "-m", "Another name")
    with RuleFiles(desk, PULL_REQUEST) as rule_files:
        read_metric_code(rule_files, "shared/moved.py:score", ())
        assert rule_files.notices[0].startswith("The metric shared/moved.py is new in this change")


@pytest.fixture
def malformed(desk: Path) -> Path:
    """The folder `desk` with a .gitmodules of the change that git cannot read."""
    (desk.parent / ".gitmodules").write_text("[submodule\n")
    git(desk, "add", "--force", "../.gitmodules")
    git(desk, "commit", "-q", "-m", "Break .gitmodules")
    return desk


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.json", True),
        ("shared", True),
        ("shared/gate.json", True),
        ("../desk/a.json", True),
        ("shared/loose.json", False),
        ("loose.json", False),
        ("b[.]json", False),
        ("../../outside.json", False),
    ],
)
def test_a_malformed_gitmodules_makes_no_file_untracked(malformed: Path, path: str, expected: bool) -> None:
    for loose in ("shared/loose.json", "loose.json"):
        (malformed / loose).write_text("{}")
    assert is_tracked(malformed, path) is expected
    assert is_tracked(malformed, str(malformed / path)) is expected


def test_a_submodule_that_moved_is_told_if_its_files_cannot_be_listed(malformed: Path) -> None:
    with RuleFiles(malformed, PULL_REQUEST) as rule_files:
        assert rule_files.list_changed_files("shared/cases.json") == ["shared"]


def test_a_malformed_gitmodules_hides_no_edit(malformed: Path) -> None:
    git(malformed, "mv", "a.json", "b.json")
    git(malformed, "commit", "-q", "-m", "Another name")
    with RuleFiles(malformed, PULL_REQUEST) as rule_files:
        assert "b.json" in rule_files.list_changed_files(".")


@pytest.fixture
def replaced(desk: Path, tmp_path: Path) -> Path:
    """The folder `desk`, where the change made `shared` a plain folder, and knows its earlier commits."""
    git(desk, "fetch", "-q", str(tmp_path / "shared"))
    (desk / "shared/.git").unlink()
    git(desk, "rm", "-q", "-r", "--cached", "shared")
    git(desk, "add", "shared")
    git(desk, "commit", "-q", "-m", "A plain folder")
    shutil.rmtree(tmp_path / "repository/.git/modules")
    return desk


def test_a_submodule_that_became_a_folder_is_not_taken_for_one_without_rules(replaced: Path) -> None:
    with pytest.raises(InvalidInputError, match="it is in the submodule shared, and git does not know"):
        plan_with("shared/gate.json", replaced, "a.json")
    with pytest.raises(
        InvalidInputError, match=r"GitLab: .* the submodule shared is not checked out with its"
    ):
        read_code(replaced)
