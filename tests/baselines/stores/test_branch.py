"""A baseline on a branch: pushed with compare and swap, also by concurrent jobs."""

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.baselines.stores.branch import BranchStore, build_branch_store
from evalgate.core.errors import InvalidInputError
from evalgate.core.plugin_registry import resolve_baseline_store
from evalgate.core.protocols import StoreContext
from evalgate.core.types import Baseline, BaselineSource
from tests.builders import a_case_result, a_record

RECORD = a_record(a_case_result("paris"))


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A host with one commit on main."""
    host = tmp_path / "host.git"
    git(tmp_path, "init", "-q", "--bare", str(host))
    clone(host, tmp_path / "first")
    git(tmp_path / "first", "commit", "-q", "--allow-empty", "-m", "Start")
    git(tmp_path / "first", "push", "-q", "origin", "HEAD:refs/heads/main")
    return host


def clone(host: Path, folder: Path) -> Path:
    git(host.parent, "clone", "-q", str(host), str(folder))
    return folder


def adding(name: str) -> Callable[[Baseline | None], Baseline]:
    """Adds a gate run to whatever there is."""

    def change(before: Baseline | None) -> Baseline:
        sources = before.sources if before else ()
        return Baseline(build_baseline(RECORD).cases, (*sources, BaselineSource(commit=name)))

    return change


def commits_in(baseline: Baseline | None) -> list[str | None]:
    return [source.commit for source in baseline.sources] if baseline else []


def test_there_is_none_until_one_is_pushed(origin: Path, tmp_path: Path) -> None:
    here, there = clone(origin, tmp_path / "here"), clone(origin, tmp_path / "there")
    store = BranchStore(here, "evalgate-baseline")
    assert store.read() is None
    assert store.update(adding("a")).path == "branch:evalgate-baseline:baseline.json"
    found = BranchStore(there, "evalgate-baseline").read()
    assert commits_in(found) == ["a"]
    assert found is not None
    tip = git(origin, "rev-parse", "evalgate-baseline")
    assert (found.path, found.version) == ("branch:evalgate-baseline:baseline.json", f"commit {tip[:12]}")
    assert git(here, "status", "--porcelain") == ""
    assert git(here, "branch", "--list").split() == ["*", "main"]


def test_files_of_one_branch_leave_each_other_alone(origin: Path, tmp_path: Path) -> None:
    here = clone(origin, tmp_path / "here")
    for file in ("a.json", "b/c.json"):
        BranchStore(here, "data", file).update(adding(file))
    assert git(origin, "ls-tree", "-r", "--name-only", "data").split() == ["a.json", "b/c.json"]
    assert commits_in(BranchStore(here, "data", "a.json").read()) == ["a.json"]
    assert BranchStore(here, "data", "none.json").read() is None


def test_what_does_not_change_is_not_pushed(origin: Path, tmp_path: Path) -> None:
    store = BranchStore(clone(origin, tmp_path / "here"), "data")
    kept = store.update(adding("a"))
    before = git(origin, "rev-parse", "data")
    assert store.update(lambda known: known or kept) == kept
    assert git(origin, "rev-parse", "data") == before


@pytest.mark.slow
def test_twenty_writers_lose_no_run(origin: Path, tmp_path: Path) -> None:
    stores = [BranchStore(clone(origin, tmp_path / f"w{at}"), "data") for at in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda pair: pair[1].update(adding(str(pair[0]))), enumerate(stores)))
    found = commits_in(stores[0].read())
    assert sorted(found, key=lambda name: int(name or "-1")) == [str(at) for at in range(20)]
    assert git(origin, "rev-list", "--count", "data").strip() == "20"


def test_a_push_that_is_forbidden_is_no_endless_one(origin: Path, tmp_path: Path) -> None:
    hook = origin / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho protected branch; exit 1\n")
    hook.chmod(0o755)
    store = BranchStore(clone(origin, tmp_path / "here"), "data", jitter=lambda: -0.5)
    with pytest.raises(OSError, match="protected branch"):
        store.update(adding("a"))


def test_a_folder_without_a_host_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"branch:data:baseline\.json: the baseline cannot be read"):
        BranchStore(tmp_path, "data").read()


def test_a_damaged_baseline_is_told(origin: Path, tmp_path: Path) -> None:
    here = clone(origin, tmp_path / "here")
    (here / "baseline.json").write_text("{")
    git(here, "add", ".")
    git(here, "commit", "-q", "-m", "Damage")
    git(here, "push", "-q", "origin", "HEAD:refs/heads/data")
    with pytest.raises(InvalidInputError, match=r"branch:data:baseline\.json:1"):
        BranchStore(here, "data").read()


@pytest.mark.parametrize("what", ["", "-x", "a..b", "a:-f", "a:../b", "a b", "a:/etc/passwd", "a.lock", "a/"])
def test_a_name_that_git_or_a_shell_could_misread_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="must be branch:NAME"):
        build_branch_store(what, StoreContext(tmp_path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("branch:data", ("data", "baseline.json")),
        ("branch:eval/data:desk/a.json", ("eval/data", "desk/a.json")),
    ],
)
def test_the_thresholds_file_names_it(text: str, expected: tuple[str, str], tmp_path: Path) -> None:
    store = resolve_baseline_store(text, StoreContext(tmp_path))
    assert isinstance(store, BranchStore)
    assert (store.branch, store.file) == expected
