"""The cache of a gate that is root: the agent, who owns the workspace, cannot make it write elsewhere."""

import os
from pathlib import Path

import pytest

from evalgate.config.schema.judge import JudgeConfig
from evalgate.llm.caching import ResponseCache
from evalgate.llm.judge_resolver import LlmContext, ModelPool
from evalgate.llm.private_cache import PrivateCache
from evalgate.system.workspace import Workspace

OWNER = (os.getuid(), os.getgid())


def open_private(workspace: Path, *, writes: bool = True) -> PrivateCache:
    path = workspace / ".evalgate" / "cache.sqlite"
    return PrivateCache(path, workspace, OWNER, writes=writes, wall=lambda: 1e9)


def read_all(workspace: Path, *keys: str) -> list[str | None]:
    path = workspace / ".evalgate" / "cache.sqlite"
    with ResponseCache(path, writes=False, wall=lambda: 1e9) as file:
        return [file.get(key) for key in keys]


def store(workspace: Path, key: str, text: str) -> None:
    with ResponseCache(workspace / ".evalgate" / "cache.sqlite", writes=True, wall=lambda: 1e9) as file:
        file.put(key, text)


def test_answers_are_kept_between_runs(tmp_path: Path) -> None:
    with open_private(tmp_path) as file:
        file.put("a", "one")
        assert list(tmp_path.iterdir()) == [], "nothing is in the workspace before the end"
    with open_private(tmp_path) as file:
        assert file.get("a") == "one"
        file.put("b", "two")

    assert read_all(tmp_path, "a", "b") == ["one", "two"]
    assert [path.name for path in (tmp_path / ".evalgate").iterdir()] == ["cache.sqlite"]
    assert file.notices == ()


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_that_the_agent_makes_is_replaced(tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "preload"
    if exists:
        target.touch()
    file = open_private(tmp_path)
    file.trust_stored_answers()
    (tmp_path / ".evalgate").mkdir()
    (tmp_path / ".evalgate/cache.sqlite").symlink_to(target)
    with file:
        file.put("a", "one")

    assert (target.read_bytes() if exists else target.exists()) == (b"" if exists else False)
    assert read_all(tmp_path, "a") == ["one"]
    assert not (tmp_path / ".evalgate/cache.sqlite").is_symlink()


def test_a_folder_that_the_agent_replaces_by_a_link_gets_nothing(tmp_path: Path) -> None:
    target = tmp_path / "root"
    target.mkdir()
    file = open_private(tmp_path)
    file.trust_stored_answers()
    (tmp_path / ".evalgate").symlink_to(target)
    with file:
        file.put("a", "one")

    assert list(target.iterdir()) == []
    (notice,) = file.notices
    assert notice.startswith(
        "the judge's cache cache.sqlite could not be stored: .evalgate was replaced by a link"
    )


def test_a_link_that_was_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".evalgate").mkdir()
    (tmp_path / ".evalgate/cache.sqlite").symlink_to(tmp_path / "preload")
    with open_private(tmp_path) as file:
        file.put("a", "one")

    assert not (tmp_path / "preload").exists()
    assert (tmp_path / ".evalgate/cache.sqlite").is_symlink()
    (notice,) = file.notices
    assert notice.startswith("the judge's cache cache.sqlite is not used: ")


def test_what_the_agent_stores_is_lost(tmp_path: Path) -> None:
    store(tmp_path, "a", "no")
    file = open_private(tmp_path)
    file.trust_stored_answers()
    store(tmp_path, "a", "yes")
    store(tmp_path, "b", "yes")
    with file:
        assert [file.get(key) for key in "ab"] == ["no", None]

    assert read_all(tmp_path, "a", "b") == ["no", None]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    store(tmp_path, "a", "one")
    before = (tmp_path / ".evalgate/cache.sqlite").stat()
    with open_private(tmp_path, writes=False) as file:
        assert file.get("a") == "one"
        file.put("b", "two")

    assert os.path.samestat((tmp_path / ".evalgate/cache.sqlite").stat(), before)
    assert read_all(tmp_path, "a", "b") == ["one", None]


def test_a_broken_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".evalgate").mkdir()
    for number in (1, 2):
        (tmp_path / ".evalgate/cache.sqlite").write_text(f"broken {number} " * 99)
        with open_private(tmp_path) as file:
            file.put("a", "one")
        kept = (tmp_path / f".evalgate/cache.sqlite.broken-{number}").read_text()
        assert kept == f"broken {number} " * 99
        assert read_all(tmp_path, "a") == ["one"]


async def test_a_pool_uses_one_only_where_the_workspace_has_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "workspace").mkdir()
    for owner, kind in ((None, ResponseCache), (OWNER, PrivateCache)):
        workspace = Workspace(tmp_path / "workspace", owner)
        async with ModelPool(LlmContext(workspace.folder, {}, workspace=workspace)) as pool:
            pool.reserve_model(JudgeConfig(model="m"))
            pool.trust_stored_answers()
            (cache,) = pool.reserved_caches
            assert type(cache) is kind
        assert os.listdir(tmp_path) == ["workspace"], "no temporary folder is left"  # noqa: PTH208
