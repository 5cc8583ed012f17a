"""Compiled templates are kept where Python keeps compiled modules, and never change a report."""

import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from evalgate.reporting.template_cache import TemplateCache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "a.j2").write_text("Hello {{ name }}")
    return tmp_path


def render(folder: Path, format_name: str = "text", **options: Any) -> tuple[str, bool]:
    """The text of a template in a new environment, and whether it was compiled for that."""
    compiled = False

    class Watched(Environment):
        def compile(self, *args: Any, **kwargs: Any) -> Any:
            nonlocal compiled
            compiled = True
            return super().compile(*args, **kwargs)

    environment = Watched(
        loader=FileSystemLoader(folder), bytecode_cache=TemplateCache(folder, format_name), **options
    )
    return environment.get_template("a.j2").render(name="you"), compiled


def test_a_template_is_compiled_once_and_again_after_a_change(folder: Path) -> None:
    assert [render(folder), render(folder)] == [("Hello you", True), ("Hello you", False)]
    assert [path.parent.name for path in folder.rglob("*.pyc")] == ["__pycache__"]
    (folder / "a.j2").write_text("Bye {{ name }}")
    assert render(folder) == ("Bye you", True)


def test_environments_do_not_share_their_compiled_templates(folder: Path) -> None:
    (folder / "a.j2").write_text("{{ 'const' }}")
    assert render(folder)[0] == "const"
    assert render(folder, "loud", finalize=lambda value: str(value).upper())[0] == "CONST"


@pytest.mark.parametrize("damage", [b"", b"garbage", b"j2\x80\x02K\x05."])
def test_a_damaged_file_is_replaced(folder: Path, damage: bytes) -> None:
    render(folder)
    (kept,) = folder.rglob("*.pyc")
    whole = kept.read_bytes()
    for content in (damage, whole[: len(whole) // 2], whole[:20]):
        kept.write_bytes(content)
        assert render(folder) == ("Hello you", True)
        assert kept.read_bytes() == whole


def test_nothing_is_written_if_python_writes_no_modules(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render(folder) == ("Hello you", True)
    assert not list(folder.rglob("*.pyc"))


def test_a_folder_that_cannot_be_written_is_no_problem(folder: Path) -> None:
    (folder / "__pycache__").write_text("a file")
    assert [render(folder), render(folder)] == [("Hello you", True)] * 2
