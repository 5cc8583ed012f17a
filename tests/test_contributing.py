"""The map of the code in CONTRIBUTING.md, and those in docstrings: every module and function they name is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
# Names that are broken over two lines count, too.
MAP = re.sub(r"\s+", " ", TEXT[TEXT.index("## Where things are") : TEXT.index("## A release")])
NAMED = re.findall(r"`((?:evalgate/)?[a-z_]+/[a-z_/.<>]*|plugins\.py)(?:: ([\w.]+))?`", MAP)
MODULES = sorted((ROOT / "evalgate").rglob("*.py"))
ECOSYSTEMS = ("adk", "adk_rs", "trpc", "orchestrate")


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda value: value or "-")
def test_what_the_map_names_exists(path: str, name: str) -> None:
    if path.startswith(("tests/", "docs/")):
        assert (ROOT / path).exists()
        return
    where = path.removeprefix("evalgate/")
    found = [ROOT / "evalgate" / where.replace("<ecosystem>", each) for each in ECOSYSTEMS]
    nested = [each for each in (ROOT / "evalgate").glob(f"*/{where.rstrip('/')}") if where.endswith("/")]
    assert any(each.exists() for each in (*found, *nested)), path
    if name:
        value: object = importlib.import_module("evalgate." + where.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            value = getattr(value, part)


@pytest.mark.parametrize("module", ["runner.execution", "runner.pipeline", "statistics"])
def test_what_docstrings_call_the_next_step_exists(module: str) -> None:
    text = importlib.import_module(f"evalgate.{module}").__doc__ or ""
    named = [(owner, name) for owner, name in re.findall(r"`(\w+)\.(\w+)`", text) if name != "py"]
    assert named
    for owner, name in named:
        # `owner` is a module or a class.
        places = [
            each for each in MODULES if each.stem == owner or f"class {owner}" in each.read_text("utf-8")
        ]
        assert any(f"def {name}(" in each.read_text("utf-8") for each in places), f"{owner}.{name}"


def test_every_package_is_on_the_map() -> None:
    packages = {each.parent.name for each in (ROOT / "evalgate").glob("*/__init__.py")}
    assert {each for each in packages if f"`{each}/`" not in MAP} == set()
