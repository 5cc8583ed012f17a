"""The list of faults in docs/reliability.md is of tests that exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \|.*\| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    return ROW.findall((TESTS.parent / "docs/reliability.md").read_text())


def test_every_fault_is_counted() -> None:
    assert [int(number) for number, _, _ in rows()] == list(range(1, 59))


def test_every_test_that_is_named_exists() -> None:
    missing = [f"{file}::{name}" for _, file, name in rows() if name not in _tests_in(TESTS / file)]
    assert missing == []


def _tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
