"""The documents name everything that can be asked for: keys, options, commands, variables."""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from evalgate.cli.help_pages import SectionedCommand, group_by_section
from evalgate.cli.main import cli
from evalgate.config.schema.agent import LOCAL, AgentConfig
from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.judge import CacheConfig
from evalgate.config.schema.providers import PROVIDERS
from evalgate.core import plugin_registry

ROOT = Path(__file__).parents[1]
DOCS = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
COMMANDS = ROOT / "docs/commands.md"
cli.list_commands(click.Context(cli))  # loads all of them
ENVIRONMENT = DOCS["environment.md"]


# --- the command line ---------------------------------------------------------------------------------------


def commands_of(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """What can be typed, in the order of the alphabet, with its name."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name, each in sorted(command.commands.items()):
        if not each.hidden:
            yield from commands_of(each, (*path, name))


def page() -> str:
    """`docs/commands.md`."""
    parts = [
        "# Commands\n\nEvery command with every option, as `--help` lists them. `tests/test_documented.py` writes this page.\n"
    ]
    for name, command in commands_of(cli, ("evalgate",)):
        arguments = " ".join(argument(each) for each in arguments_of(command))
        parts.append(f"\n## `{name}`\n\n```text\n{name} [OPTIONS] {arguments}".rstrip() + "\n```\n")
        parts.append(f"\n{inspect.cleandoc(command.help or '')}\n")
        for heading, options in sections_of(command):
            rows = "".join(row(each) for each in options)
            title = f"\n**{heading}**\n" if heading else ""
            parts.append(f"{title}\n| option | default | meaning |\n|---|---|---|\n{rows}")
    return "".join(parts)


def sections_of(command: click.Command) -> Iterable[tuple[str, list[click.Option]]]:
    """The options of a command by the heading in its help; "" where the help has one list of them."""
    if isinstance(command, SectionedCommand):
        return group_by_section(command.params)
    return [("", [each for each in command.params if isinstance(each, click.Option)])]


def arguments_of(command: click.Command) -> list[click.Parameter]:
    return [each for each in command.params if isinstance(each, click.Argument)]


def argument(parameter: click.Parameter) -> str:
    return (
        parameter.metavar
        or (parameter.human_readable_name if parameter.required else f"[{parameter.name}]").upper()
    )


def row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {metavar(option)}"
    meaning, _, shown = (option.help or "").partition("  [default: ")
    default = shown.removesuffix("]") if shown else f"`{option.default}`" if option.show_default else "–"
    is_silent = option.multiple and "Repeatable" not in meaning
    often = " Repeatable." if is_silent else ""
    variable = f" Read from `{option.envvar}` when absent." if option.envvar else ""
    return f"| {names}{value} | {default} | {meaning}{often}{variable} |\n".replace("|N", "\\|N")


def metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return " or ".join(f"`{each}`" for each in option.type.choices)
    return "NUMBER"


def test_the_documents_name_every_command_and_option(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        COMMANDS.write_text(page(), "utf-8")
    assert page() == COMMANDS.read_text("utf-8")


def test_every_option_has_a_help_text() -> None:
    named = [
        (name, option)
        for name, command in commands_of(cli, ("evalgate",))
        for option in command.params
        if isinstance(option, click.Option)
    ]
    assert [(name, option.opts) for name, option in named if not option.help] == []


def test_a_command_is_one_short_imperative_line() -> None:
    groups = [cli, *(each for each in cli.commands.values() if isinstance(each, click.Group))]
    shown = [each for group in groups for each in group.commands.values() if not each.hidden]
    lines = [(command.help or "").partition("\n")[0] for command in shown]
    assert [line for line in lines if not (len(line) <= 60 and line.endswith("."))] == []


@pytest.mark.parametrize("columns", ["40", "80"])
def test_no_line_about_a_command_is_cut_off(columns: str) -> None:
    shown = CliRunner(env={"COLUMNS": columns}).invoke(cli, ["--help"], terminal_width=int(columns)).output
    words = " ".join(shown.split())
    named = [each for each in cli.commands.values() if not each.hidden]
    assert [each.name for each in named if (each.help or "").partition("\n")[0] not in words] == []


@pytest.mark.parametrize("name", ["run", "merge"])
def test_every_option_of_a_run_is_in_a_named_section(name: str) -> None:
    headings = dict(group_by_section(cli.commands[name].params))
    first = ["What to run", "Selection of cases", "Agent", "Judge and simulated user", "Verdict and baseline"]
    assert list(headings)[:5] == first
    assert "Options" not in headings


def test_the_help_shows_the_defaults_of_the_thresholds_file() -> None:
    found = {each.name: each for each in cli.commands["run"].params if isinstance(each, click.Option)}
    fields: dict[str, type[BaseModel]] = {
        "workers": AgentConfig, "concurrency": AgentConfig, "timeout": AgentConfig, "max_regression": GateConfig
    }  # fmt: skip
    for name, model in fields.items():
        assert f"[default: {model.model_fields[name].default:g}]" in (found[name].help or "")
    assert f"[default: {CacheConfig().mode}]" in (found["judge_cache"].help or "")
    assert f"[default: {LOCAL.kind}]" in (found["executor"].help or "")


# --- the thresholds file ------------------------------------------------------------------------------------


def keys_of(schema: Any) -> Iterator[str]:
    """Every key that a schema names, at any depth."""
    if isinstance(schema, list):
        for each in schema:
            yield from keys_of(each)
    if isinstance(schema, dict):
        properties = schema.get("properties", {})
        yield from properties
        for each in (
            *properties.values(),
            *(value for name, value in schema.items() if name != "properties"),
        ):
            yield from keys_of(each)


def test_the_documents_name_every_key_of_the_thresholds_file() -> None:
    schema = json.loads((ROOT / "docs/evalgate.schema.json").read_text("utf-8"))
    keys = set(keys_of(schema)) - plugin_registry.METRICS.keys()
    assert {"custom_metrics", "range", "up_to_input_tokens", "start_timeout"} <= keys
    text = "\n".join(DOCS.values())
    named = set(re.findall(r"`(?:[a-z]+\.)*(\w+)`", text)) | set(re.findall(r"\b(\w+): ", text))
    assert sorted(keys - named) == []


# --- the environment ----------------------------------------------------------------------------------------


def variables_read(source: str) -> Iterator[str]:
    """Names of variables that a module looks up in something called `environ`."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        for place, key in lookups(node):
            name = constants.get(key.id) if isinstance(key, ast.Name) else getattr(key, "value", None)
            if isinstance(name, str) and name.isupper() and "environ" in ast.unparse(place):
                yield name


def lookups(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is looked into, and for what."""
    match node:
        case ast.Call(func=ast.Attribute(value=place, attr="get" | "pop"), args=[key, *_]):
            yield place, key
        case ast.Subscript(value=place, slice=key):
            yield place, key
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[place]):
            yield place, key


def sources() -> Iterator[Path]:
    return (ROOT / "evalgate").rglob("*.py")


def test_the_documents_name_every_variable_that_is_read() -> None:
    read = {name for path in sources() for name in variables_read(path.read_text("utf-8"))}
    assert {"GITHUB_SHA", "CI_MERGE_REQUEST_IID", "NO_COLOR"} <= read
    assert sorted(name for name in read if f"`{name}`" not in ENVIRONMENT) == []


def test_the_documents_name_every_variable_with_a_key() -> None:
    text = DOCS["judges.md"]
    names = {
        name
        for each in PROVIDERS.values()
        if each
        for name in (*each.key_variables, each.base_url_variable)
        if name
    }
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_the_documents_name_no_variable_that_is_not_read() -> None:
    code = "\n".join(path.read_text("utf-8") for path in sources())
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", ENVIRONMENT))
    by_libraries = {"DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"}
    assert {name for name in named - by_libraries if name not in code} == set()


# --- whose rules hold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", ["docs/commands.md", "action.yml", "composite/action.yml", "docs/github-action.md"]
)
@pytest.mark.parametrize(
    "rule", ["baseline", "prompts", "anchors", "personas", "code of custom metrics", "Quarantines", "plugins"]
)
def test_the_policy_texts_name_every_rule(file: str, rule: str) -> None:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    policy_lines = [line for line in lines if "Whose rules" in line]
    assert policy_lines
    assert [line for line in policy_lines if rule not in line] == []


# --- the code -----------------------------------------------------------------------------------------------


def test_functions_are_short() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in (ROOT / "evalgate").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _count_lines(node, path) > 45
    ]
    assert found == []


def _count_lines(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> int:
    lines = (node.end_lineno or 0) - node.lineno + 1
    # In the library a docstring is the manual page of a public function: it has every argument and an example.
    manual = ast.get_docstring(node, clean=False) if "api" in path.parts else None
    return lines - (manual.count("\n") + 1 if manual else 0)


NO_FIRST_WORD = re.compile(r"(What|Who|Whose|Whom|Where|Which|How|Why|When|Whatever|Whoever|Whether)\b")
NO_WORD = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anybody|everybody|whatever|whose|whom)\b", re.IGNORECASE
)


def test_docstrings_are_statements() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "evalgate").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        if (text := ast.get_docstring(node)) and (NO_FIRST_WORD.match(text) or NO_WORD.search(text))
    ]
    assert found == []
