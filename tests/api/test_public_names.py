"""The names that the library publishes, with their signatures: a change of them is seen here first."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from pydantic import BaseModel

import evalgate
import evalgate.api
from evalgate.api import adk, adk_rs, trpc

GOLDEN = Path(__file__).parent / "golden"
INTERFACES = {"adk": adk, "adk_rs": adk_rs, "trpc": trpc}
WITHOUT_EXAMPLE = {
    # Errors.
    "trpc": ["AlreadyExistsError", "CallbackError", "NotFoundError", "StorageError"]
}


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


def list_interface_names(module: ModuleType) -> list[str]:
    return list(getattr(module, "_PUBLIC_NAMES", None) or module.__all__)


def describe_interface(module: ModuleType) -> str:
    """Return a line for each name of an owner's interface, and one for each method of a class that is no data."""
    lines: list[str] = []
    for name in list_interface_names(module):
        found = getattr(module, name)
        if not inspect.isclass(found):
            lines.append(f"{name}{format_signature(found) if inspect.isfunction(found) else ''}")
        elif issubclass(found, BaseModel):
            lines.append(f"class {name}({', '.join(found.model_fields)})")
        elif issubclass(found, Enum):
            lines.append(f"class {name}({', '.join(found.__members__)})")
        elif issubclass(found, BaseException) or getattr(found, "_is_protocol", False):
            lines += [f"class {name}", *sorted(describe_members(name, found))]
        else:
            lines += [f"class {name}{format_signature(found)}", *sorted(describe_members(name, found))]
    return "".join(f"{line}\n" for line in lines)


def format_signature(function: Callable[..., object]) -> str:
    """Return the parameters and their defaults; the type checkers watch the annotations."""
    found = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", text)


def describe_members(name: str, found: type) -> list[str]:
    return [
        f"{name}.{member}{format_signature(value) if callable(value) else ''}"
        for member, value in inspect.getmembers(found)
        if not member.startswith("_")
        and (inspect.isfunction(value) or inspect.ismethod(value) or isinstance(value, property))
    ]


def test_the_public_names_are_those_of_the_list(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        (GOLDEN / "public_names.txt").write_text(describe_public_names(), "utf-8")
    assert describe_public_names() == (GOLDEN / "public_names.txt").read_text("utf-8")


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_names_of_an_interface_are_those_of_the_list(
    interface: str, request: pytest.FixtureRequest
) -> None:
    found, golden = describe_interface(INTERFACES[interface]), GOLDEN / f"{interface}_names.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(found, "utf-8")
    assert found == golden.read_text("utf-8")


@pytest.mark.parametrize("interface", INTERFACES)
def test_classes_and_functions_of_an_interface_have_an_example(interface: str) -> None:
    module = INTERFACES[interface]
    found = {name: getattr(module, name) for name in list_interface_names(module)}
    documented = {
        name: each
        for name, each in found.items()
        if isinstance(each, type | FunctionType)  # an alias such as `dict[str, Any]` is neither
    }
    assert [name for name, each in documented.items() if not inspect.getdoc(each)] == []
    without = [
        name
        for name, each in documented.items()
        if ">>>" not in (inspect.getdoc(each) or "") and not getattr(each, "_is_protocol", False)
    ]
    assert without == WITHOUT_EXAMPLE.get(interface, [])


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in evalgate._PUBLIC_NAMES if not inspect.getdoc(getattr(evalgate, name))] == []


def test_a_star_imports_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from evalgate import *", names)
    assert {*names} - {"__builtins__"} == {*evalgate._PUBLIC_NAMES}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'evalgate' has no attribute 'evaluat'"):
        evalgate.evaluat  # noqa: B018


def test_every_public_name_has_an_example() -> None:
    names = sorted(evalgate._PUBLIC_NAMES)
    without = [name for name in names if ">>>" not in (getattr(evalgate, name).__doc__ or "")]
    assert without == ["Baseline"]  # what a store of a plugin returns


MODULES = ["evalgate.core.errors"]
MODULES += [f"evalgate.core.types.{name}" for name in ("conversation", "dataset", "record", "result")]
MODULES += [each.name for each in pkgutil.walk_packages(evalgate.api.__path__, "evalgate.api.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
