"""Search for packages with plugins, wherever they are installed."""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalgate.core import plugin_registry

PLUGIN = "[console_scripts]\nx = x:main\n[evalgate.metrics]\nshiny = shiny:Metric\n"
METADATA = "Metadata-Version: 2.1\nName: shiny\nVersion: 1.0\n"


@pytest.fixture(autouse=True)
def _search_anew() -> Iterator[None]:
    plugin_registry.list_entry_points.cache_clear()
    plugin_registry._may_have_plugins.cache_clear()
    yield
    plugin_registry.list_entry_points.cache_clear()
    plugin_registry._may_have_plugins.cache_clear()


def find_names(family: plugin_registry.Family) -> list[str]:
    return [point.name for point in plugin_registry.list_entry_points(family)]


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

    assert find_names("metrics") == ["shiny"]
    assert find_names("formats") == []


def test_packages_in_a_zip_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr("shiny-1.0.dist-info/METADATA", METADATA)
        archive.writestr("shiny-1.0.dist-info/entry_points.txt", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "packages.zip")

    assert find_names("metrics") == ["shiny"]


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

    assert find_names("metrics") == ["shiny"]
