"""Baselines as they were at a tag, a commit or a date."""

import os
import subprocess
from pathlib import Path

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.baselines.past_baseline import open_past_baseline
from evalgate.baselines.serialization import dump_baseline
from evalgate.baselines.stores.branch import BranchStore
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import StoreContext
from evalgate.core.types import Baseline, BaselineSource
from tests.builders import a_case_result, a_record

FILE = ".evalgate/baseline.json"


def git(folder: Path, *arguments: str, day: str = "2026-09-01") -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
    when = {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    done = subprocess.run(
        ["git", *who, *arguments],
        cwd=folder,
        env=os.environ | when,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def build(*commits: str) -> Baseline:
    found = build_baseline(a_record(a_case_result()))
    return Baseline(found.cases, tuple(BaselineSource(commit=each) for each in commits))


def read(folder: Path, source: str, when: str, tip: str = "HEAD") -> list[str | None]:
    found = open_past_baseline(source, when, StoreContext(folder, os.environ), tip).read()
    return [each.commit for each in found.sources]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits with a baseline each, the second tagged, pushed to a host."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Start", day="2026-08-01")
    for day, name in (("2026-09-01", "first"), ("2026-09-08", "second"), ("2026-09-15", "third")):
        (folder / FILE).parent.mkdir(exist_ok=True)
        (folder / FILE).write_text(dump_baseline(build(name)))
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", name, day=day)
    git(folder, "tag", "-a", "v1.2.0", "-m", "Release", "HEAD~1")
    git(tmp_path, "clone", "-q", "--bare", str(folder), "host.git")
    git(folder, "remote", "add", "origin", (tmp_path / "host.git").as_uri())
    return folder


def test_a_file_is_read_at_a_tag_a_commit_or_a_date(repository: Path) -> None:
    second = git(repository, "rev-parse", "HEAD~1")

    assert read(repository, FILE, "v1.2.0") == ["second"]
    assert read(repository, FILE, second) == read(repository, FILE, second[:8]) == ["second"]
    assert read(repository, FILE, "2026-09-08") == read(repository, FILE, "2026-09-14") == ["second"]
    assert read(repository, FILE, "2026-09-08T11:59") == ["first"]
    assert read(repository, FILE, "2026-09-30", tip=second) == ["second"]


@pytest.mark.parametrize("when", ["v1.2.0", "2026-09-08"])
def test_a_file_may_be_named_from_the_root_or_from_a_folder(
    repository: Path, tmp_path: Path, when: str
) -> None:
    (repository / "deep").mkdir()
    assert read(repository, str(repository / FILE), when) == ["second"]
    assert read(repository / "deep", str(repository / FILE), when) == ["second"]
    assert read(repository / "deep", f"../{FILE}", when) == ["second"]
    with pytest.raises(InvalidInputError, match=f"no such file at {when}"):
        read(repository, str(tmp_path / "elsewhere.json"), when)


@pytest.mark.parametrize(
    ("source", "when", "why"),
    [
        (FILE, "v9", "there is no tag v9"),
        (FILE, "main", "there is no tag main"),
        (FILE, "2026-08-05", "no such file at 2026-08-05"),
        (FILE, "2026-07-31", "git knows no commit of that time or before"),
        (FILE, "2999-01-01", "2999-01-01 is in the future"),
        (FILE, "--all", "neither a tag, a commit nor a date"),
        (FILE, "0001-01-01T00:00+14:00", "neither a tag, a commit nor a date"),
        ("other.json", "v1.2.0", "no such file at v1.2.0"),
        ("artifact:nightly", "v1.2.0", "artifact:nightly has no history"),
        ("branch:baselines", "v1.2.0", "holds no baseline of v1.2.0 or before"),
    ],
)
def test_what_cannot_be_read_is_an_error(repository: Path, source: str, when: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        read(repository, source, when)


def test_a_shallow_checkout_fetches_the_tag_and_refuses_a_date(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", "--no-tags", (tmp_path / "host.git").as_uri(), "shallow")

    assert read(tmp_path / "shallow", FILE, "v1.2.0") == ["second"]
    assert read(tmp_path / "shallow", str(tmp_path / "shallow" / FILE), "v1.2.0") == ["second"]
    assert read(tmp_path / "shallow", FILE, git(repository, "rev-parse", "HEAD~2")) == ["first"]
    with pytest.raises(
        InvalidInputError, match=r"check out the whole history \(GitHub: .* GitLab: `GIT_DEPTH: 0`"
    ):
        read(tmp_path / "shallow", FILE, "2026-09-08")


def test_a_branch_is_read_at_its_save_of_the_release_or_at_a_date(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = git(repository, "rev-parse", "v1.2.0^{commit}")
    store = BranchStore(repository, "baselines")
    saves = (("2026-09-02", "old"), ("2026-09-09", "other"), ("2026-09-10", release), ("2026-09-16", "new"))
    for at, (day, _) in enumerate(saves):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{day}T12:00:00Z")
        after = build(*(commit for _, commit in saves[: at + 1]))
        monkeypatch.setattr(
            "evalgate.baselines.stores.branch._WHO",
            {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
            | {"GIT_COMMITTER_DATE": f"{day}T12:00:00Z"},
        )
        store.update(lambda _, after=after: after)  # type: ignore[misc]
    git(repository, "fetch", "-q", "origin")
    second = git(repository, "rev-parse", "origin/baselines~2")
    newest = git(repository, "rev-parse", "origin/baselines")

    assert read(repository, "branch:baselines", "v1.2.0") == ["old", "other", release]
    assert read(repository, "branch:baselines", "2026-09-09") == ["old", "other"]
    assert read(repository, "branch:baselines", second[:10]) == ["old", "other"]
    # The third commit's gate run was never saved: what the branch held when it was made is the next best.
    assert read(repository, "branch:baselines", git(repository, "rev-parse", "main"))[-1] == release
    with pytest.raises(InvalidInputError, match="its oldest is of 2026-09-02"):
        read(repository, "branch:baselines", "2026-09-01")
    assert read(repository, "branch:baselines", newest[:8])[-1] == "new"
    with pytest.raises(InvalidInputError, match=f"there is no tag {newest[0]}"):
        read(repository, "branch:baselines", newest[0])
    # A tag of exactly this name comes before the saves whose hashes begin so.
    for tag in (newest[0], newest[:8]):
        git(repository, "tag", tag, release)
        assert read(repository, "branch:baselines", tag)[-1] == release
        git(repository, "push", "-q", "origin", tag)
        git(repository, "tag", "-d", tag)
        assert read(repository, "branch:baselines", tag)[-1] == release


def test_a_tag_that_is_nowhere_is_told_without_a_remote(repository: Path) -> None:
    git(repository, "remote", "remove", "origin")

    with pytest.raises(
        InvalidInputError, match="the checkout has no such tag or commit, and git cannot fetch it"
    ):
        read(repository, FILE, "v9")
