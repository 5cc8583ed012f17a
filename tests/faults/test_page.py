"""The list of faults in docs/reliability.md is of tests that exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROW = re.compile(rf"^\| (\d+) \|.*\| ({TEST.pattern}(?:, {TEST.pattern})*) \|$", re.MULTILINE)


def rows() -> list[tuple[int, list[tuple[str, str]]]]:
    """Number of a fault, and the file and name of each test."""
    text = (TESTS.parent / "docs/reliability.md").read_text()
    return [(int(row[1]), TEST.findall(row[2])) for row in ROW.finditer(text)]


def test_every_fault_is_counted() -> None:
    assert [number for number, _ in rows()] == list(range(1, 64))


def test_every_test_that_is_named_exists() -> None:
    named = [test for _, tests in rows() for test in tests]
    assert [f"{file}::{name}" for file, name in named if name not in _tests_in(TESTS / file)] == []


def _tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
