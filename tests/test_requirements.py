"""The lock files hold what pyproject.toml asks for, and the image's can be checked file by file."""

import re
import runpy
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evalgate.core import installation

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
LOCK = runpy.run_path(str(FOLDER / "lock.py"))
NAMES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.in"))


def requirements_in(name: str) -> list[Requirement]:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [Requirement(line.rstrip("\\").strip()) for line in lines if re.match("[A-Za-z0-9]", line)]


@pytest.mark.parametrize("name", LOCK["list_sources"]())
def test_locks_match_the_project_file(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == LOCK["list_sources"]()[name], "run `make lock`"


@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_has_exact_releases_that_satisfy_it(name: str) -> None:
    pins: dict[str, list[str]] = {}
    for pin in requirements_in(f"{name}.txt"):
        found = re.fullmatch("==([^*,]+)", str(pin.specifier))
        assert found, pin
        pins.setdefault(canonicalize_name(pin.name), []).append(found[1])

    wanted = requirements_in(f"{name}.in")

    assert wanted
    for requirement in wanted:
        versions = pins.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement}: run `make lock`"
        assert all(requirement.specifier.contains(version, prereleases=True) for version in versions), (
            f"{requirement} is locked at {versions}: run `make lock`"
        )


@pytest.mark.parametrize("name", ["build", "image", "image-full"])
def test_every_release_in_the_image_has_hashes(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    pins = [part for part in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE) if "==" in part]
    assert len(pins) > len(requirements_in(f"{name}.in"))
    assert [pin.splitlines()[0] for pin in pins if " --hash=sha256:" not in pin] == []


def test_both_images_have_the_same_release_of_what_both_have() -> None:
    slim, full = ({str(each) for each in requirements_in(f"{name}.txt")} for name in ("image", "image-full"))
    assert slim < full


@pytest.mark.parametrize("name", NAMES)
def test_no_lock_file_names_a_host(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    assert (
        re.findall(r"://|--(?:extra-)?index-url|--find-links", text.replace("--no-emit-index-url", "")) == []
    )


def test_messages_in_the_image_know_what_the_full_one_has() -> None:
    # fsspec is what s3fs and its siblings are made with
    assert set(installation.ONLY_IN_FULL) == {*LOCK["IMAGE_FULL"], "fsspec"} - set(LOCK["IMAGE"])
    assert "fsspec" in {each.name for each in requirements_in("image-full.txt")}
