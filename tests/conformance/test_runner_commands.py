"""No line that evalgate prints is a command to GitHub's runner."""

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalgate.core.sanitize import (
    disable_commands,
    to_log_line,
    to_md_code,
    to_md_fence,
    to_md_text,
    to_xml_text,
)
from evalgate.datasets.results_io import dump_record
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.junit import JUnitReport
from evalgate.reporting.terminal import TerminalReport
from tests.builders import a_case_result, a_record
from tests.conformance import shared_folder
from tests.situations import hostile

COMMANDS = (
    "set-output",
    "save-state",
    "add-mask",
    "stop-commands",
    "error",
    "warning",
    "notice",
    "group",
    "echo",
)


def _obeyed(line: str) -> bool:
    """The rule, in our own words: `::name …::` after blanks, or `##[name …]` anywhere."""
    text = line.lstrip()
    if text.startswith("::") and "::" in text[2:]:
        return text[2:].split("::")[0].split(" ")[0].lower() in COMMANDS
    _, found, rest = line.partition("##[")
    return bool(found) and "]" in rest and rest.split("]")[0].split(" ")[0].lower() in COMMANDS


def _oracle() -> Callable[[Iterable[str]], Any] | None:
    folder = shared_folder()
    path = folder / "tools/github_api/runner_commands.py" if folder else Path("/nonexistent")
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("runner_commands", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[Iterable[str]], Any] = module.commands
    return found


ORACLE = _oracle()


def commands_in(text: str) -> list[str]:
    """Every line of `text` that our rule or, where it is at hand, the runner's own would obey."""
    lines = text.splitlines()
    return [line for line in lines if _obeyed(line) or (ORACLE is not None and ORACLE([line]))]


PIECES = st.sampled_from(
    [
        "::",
        "##[",
        "]",
        "##",
        "[",
        ":",
        " ",
        "\t",
        "\n",
        "\r",
        "\x1b[0m",
        "\u200b",
        "\u2028",
        "#",
        "set-output name=v",
        *COMMANDS,
    ]
)
ATTACKS = st.lists(PIECES, max_size=12).map("".join) | st.text()


@pytest.mark.parametrize(
    "line",
    [
        "::set-output name=v::1",
        "  ::error::x",
        "agent: ##[set-output name=v;]1",
        "##[add-mask]e",
        "::stop-commands::t",
    ],
)
def test_the_rule_sees_commands(line: str) -> None:
    assert commands_in(line) == [line]


@example("::\u2028::set-output name=v::")
@given(ATTACKS)
def test_no_sink_lets_a_command_through(text: str) -> None:
    for sink in (to_log_line, to_xml_text, to_md_code, to_md_text, to_md_fence, disable_commands):
        assert commands_in(sink(text)) == []


@given(ATTACKS)
def test_no_report_lets_a_command_through(text: str) -> None:
    record = a_record(a_case_result(text, "failed", eval_set_id=text, path=text))
    for render in (dump_record, JUnitReport().render, CommentReport().render, TerminalReport().render):
        assert commands_in(render(record)) == []


@pytest.mark.parametrize(
    "render", [dump_record, JUnitReport().render, CommentReport().render, TerminalReport().render]
)
def test_the_hostile_run_commands_nobody(render: Callable[[Any], str]) -> None:
    assert commands_in(render(hostile())) == []
