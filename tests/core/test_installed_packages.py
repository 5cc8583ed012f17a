"""Search for packages with plugins, and the module of the standard library that is loaded late."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from evalgate.core.entry_points import list_entry_points

PLUGIN = "[console_scripts]\nx = x:main\n[evalgate.metrics]\nshiny = shiny:Metric\n"
METADATA = "Metadata-Version: 2.1\nName: shiny\nVersion: 1.0\n"


def find_names(group: str) -> list[str]:
    return [point.name for point in list_entry_points(group)]


@pytest.mark.parametrize(
    "place", ["shiny-1.0.dist-info", "shiny-1.0.egg-info", "Shiny.EGG-INFO", "shiny-1.0.egg/EGG-INFO"]
)
def test_packages_in_folders_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    info = tmp_path / place
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "PKG-INFO").write_text(METADATA)
    (info / "entry_points.txt").write_text(PLUGIN)
    monkeypatch.syspath_prepend(info.parent)

    assert find_names("evalgate.metrics") == ["shiny"]
    assert find_names("evalgate.formats") == []


def test_packages_in_a_zip_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr("shiny-1.0.dist-info/METADATA", METADATA)
        archive.writestr("shiny-1.0.dist-info/entry_points.txt", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "packages.zip")

    assert find_names("evalgate.metrics") == ["shiny"]


def test_packages_of_another_finder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import Distribution, PathDistribution

    info = tmp_path / "shiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(PLUGIN)

    class Finder:
        def find_spec(self, *_: object) -> None: ...

        def find_distributions(self, *_: object) -> list[Distribution]:
            return [PathDistribution(info)]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "missing")])  # it is searched anew

    assert find_names("evalgate.metrics") == ["shiny"]


@pytest.mark.parametrize(
    "use",
    [
        "from importlib.metadata import version; print(version('pydantic'))",
        "import importlib.metadata; print(importlib.metadata.version('pydantic'))",
        "from importlib import metadata; print(metadata.version('pydantic'))",
        "from importlib.metadata import entry_points; print(entry_points(group='pytest11')['evalgate'].name)",
        "from importlib.metadata import entry_points as first, entry_points; entry_points(); print(first())",
        "from importlib.metadata._text import FoldedCase; print(FoldedCase('x'))",
        "from importlib.util import find_spec; print(find_spec('importlib.metadata').name)",
        "import importlib.metadata as m, sys; m.entry_points(); print(sys.modules['importlib.metadata'].__file__)",
    ],
)
def test_metadata_that_is_loaded_late_works_as_ever(use: str) -> None:
    late = "from evalgate.core.entry_points import defer_metadata_import; defer_metadata_import()\n"

    plain, deferred = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        for code in (use, late + use)
    )

    assert (plain.returncode, deferred.stderr) == (0, "")
    assert deferred.stdout == plain.stdout
