"""Globs are read as `glob.glob` reads them, but `**` enters each folder once."""

import glob
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.system.globs import find_matches

FILES = ("a", "x/a", "x/y/a", "x/y/b.c", "x/.h/a", ".h/a", "z/x/y/x/a", "[/a")
PARTS = st.sampled_from(("**", "**", "*", "x", "y", "a", "[ab]", "?", ".h", "[[]", ".", "nothing", "", "a**"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders without links to folders, but with a dead link, a link to itself and a link to a file."""
    folder = tmp_path_factory.mktemp("tree")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    (folder / "x/dead").symlink_to("nowhere")
    (folder / "x/loop").symlink_to("loop")
    (folder / "x/y/link").symlink_to("../a")
    return folder


def no_folders(names: list[str], folder: Path) -> set[Path]:
    return {folder / name for name in names if not name.endswith("/") and not (folder / name).is_dir()}


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=5), st.booleans())
def test_files_are_those_of_the_standard_library(tree: Path, parts: list[str], is_absolute: bool) -> None:
    pattern = "/".join((glob.escape(str(tree)), *parts)) if is_absolute else "/".join(parts).lstrip("/")
    expected = glob.glob(pattern, root_dir=tree, recursive=True)  # noqa: PTH207
    assert no_folders(find_matches(pattern, tree), tree) == no_folders(expected, tree)


def test_each_folder_is_entered_once(tmp_path: Path) -> None:
    """Every folder has a link to each of the others, and one to the folder above."""
    names = [f"{number:02}" for number in range(30)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("")
        (tmp_path / name / "up").symlink_to("..")
        for other in names:
            if other != name:
                (tmp_path / name / other).symlink_to(f"../{other}")
    began = time.monotonic()
    for pattern in ("**/x", "**/**/x", "**/*/**/x"):
        assert {(tmp_path / each).resolve() for each in find_matches(pattern, tmp_path)} == {
            tmp_path / name / "x" for name in names
        }
    assert time.monotonic() - began < 10


def test_no_folder_outside_is_entered(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "x").write_text("")
    (tmp_path / "in/x").write_text("")
    (tmp_path / "in/out").symlink_to("..")
    assert find_matches("**/x", tmp_path / "in", within=tmp_path / "in") == ["x"]
    assert sorted(find_matches("**/x", tmp_path / "in")) == ["out/x", "x"]


def test_a_pattern_that_no_path_can_have_matches_nothing(tmp_path: Path) -> None:
    assert find_matches("a\0/**", tmp_path) == []
