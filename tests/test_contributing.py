"""The map of the code in CONTRIBUTING.md: every module and function that it names is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAP = TEXT[TEXT.index("## Where things are") : TEXT.index("## Words")]
NAMED = re.findall(r"`((?:evalgate/)?[a-z_]+/[a-z_/.<>]*|plugins\.py)(?:: ([\w.]+))?`", MAP)
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


def test_every_package_is_on_the_map() -> None:
    packages = {each.parent.name for each in (ROOT / "evalgate").glob("*/__init__.py")}
    assert {each for each in packages if f"`{each}/`" not in MAP} == set()
