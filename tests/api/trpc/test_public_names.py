"""The names that `evalgate.api.trpc` publishes, with their parameters: a change of them is seen here first."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from evalgate.api import trpc
from tests.api.test_public_names import describe_members, format_signature

GOLDEN = Path(__file__).parents[1] / "golden" / "trpc_names.txt"


def describe_public_names() -> str:
    """Return a line for each public name, and one for each method of a class that is no data."""
    lines: list[str] = []
    for name in trpc._PUBLIC_NAMES:
        found = getattr(trpc, name)
        if not inspect.isclass(found):
            lines.append(f"{name}{format_signature(found) if inspect.isfunction(found) else ''}")
        elif issubclass(found, BaseModel):
            lines.append(f"class {name}({', '.join(found.model_fields)})")
        elif issubclass(found, BaseException) or getattr(found, "_is_protocol", False):
            lines += [f"class {name}", *sorted(describe_members(name, found))]
        else:
            lines += [f"class {name}{format_signature(found)}", *sorted(describe_members(name, found))]
    return "".join(f"{line}\n" for line in lines)


def test_the_public_names_are_those_of_the_list(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(describe_public_names(), "utf-8")
    assert describe_public_names() == GOLDEN.read_text("utf-8")


def test_every_class_and_function_has_a_docstring_with_its_example() -> None:
    found = {name: getattr(trpc, name) for name in trpc._PUBLIC_NAMES}
    documented = {
        name: each for name, each in found.items() if inspect.isclass(each) or inspect.isfunction(each)
    }
    assert [name for name, each in documented.items() if not inspect.getdoc(each)] == []
    without = [
        name
        for name, each in documented.items()
        if ">>>" not in (inspect.getdoc(each) or "")
        and not getattr(each, "_is_protocol", False)
        and not (inspect.isclass(each) and issubclass(each, BaseException))
    ]
    assert without == ["AgentEvaluator"]  # `new`, which creates it, shows it


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'evalgate\.api\.trpc' has no attribute 'evaluat'"):
        trpc.evaluat  # noqa: B018


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("from evalgate.api import trpc", "pydantic"),
        ("from evalgate.api import trpc; trpc.LocalEvalSetManager()", "sqlalchemy"),
        ("from evalgate.api import trpc; trpc.LocalEvalSetManager()", "fsspec"),
        ("from evalgate.api import trpc; trpc.LocalEvalSetManager()", "evalgate.runner"),
        ("from evalgate.api import trpc; trpc.new('a', print)", "openai"),
    ],
)
def test_only_what_is_used_is_imported(program: str, absent: str) -> None:
    check = f"{program}\nimport sys\nprint({absent!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
