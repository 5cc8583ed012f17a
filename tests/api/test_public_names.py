"""The names that the library publishes, with their signatures: a change of them is seen here first."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest

import evalgate
import evalgate.api

GOLDEN = Path(__file__).parent / "golden" / "public_names.txt"


def describe_public_names() -> str:
    """Return a line for each public name, and one for each member of a class of the library itself."""
    lines: list[str] = []
    for name in sorted(evalgate._PUBLIC_NAMES):
        found = getattr(evalgate, name)
        if not inspect.isclass(found):
            lines.append(f"{name}{format_signature(found)}")
        elif issubclass(found, BaseException) or found.__module__.startswith("evalgate.api."):
            lines.append(f"class {name}")
            lines += sorted(describe_members(name, found))
        else:
            lines.append(f"class {name}{format_signature(found)}")
    return "".join(f"{line}\n" for line in lines)


def format_signature(function: Callable[..., object]) -> str:
    """Return the parameters and their defaults; the type checkers watch the annotations."""
    found = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def describe_members(name: str, found: type) -> list[str]:
    return [
        f"{name}.{member}{format_signature(value) if callable(value) else ''}"
        for member, value in inspect.getmembers(found)
        if not member.startswith("_")
        and (inspect.isfunction(value) or inspect.ismethod(value) or isinstance(value, property))
    ]


def test_the_public_names_are_those_of_the_list(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(describe_public_names(), "utf-8")
    assert describe_public_names() == GOLDEN.read_text("utf-8")


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in evalgate._PUBLIC_NAMES if not inspect.getdoc(getattr(evalgate, name))] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'evalgate' has no attribute 'evaluat'"):
        evalgate.evaluat  # noqa: B018


DATA_OF_THE_RECORD = {"Baseline", "CaseResult", "Reply", "ToolCall", "ToolResult", "UserMessage", "Verdict"}
"""Types that the schema of results.json describes by their docstrings, or that an example of another type shows."""


def test_every_public_name_has_an_example() -> None:
    names = set(evalgate._PUBLIC_NAMES) - DATA_OF_THE_RECORD
    assert [name for name in sorted(names) if ">>>" not in (getattr(evalgate, name).__doc__ or "")] == []


MODULES = ["evalgate.core.errors", "evalgate.core.types.dataset"]
MODULES += [each.name for each in pkgutil.walk_packages(evalgate.api.__path__, "evalgate.api.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
