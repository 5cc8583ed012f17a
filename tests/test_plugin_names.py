"""The names that plugins import: one documented place, which the sample plugin uses alone."""

import ast
import re
from pathlib import Path

import evalgate.plugins

ROOT = Path(__file__).parents[1]


def test_every_published_name_exists() -> None:
    assert list(evalgate.plugins.__all__) == sorted(set(evalgate.plugins.__all__))
    assert [name for name in evalgate.plugins.__all__ if not hasattr(evalgate.plugins, name)] == []


def test_the_sample_plugin_imports_published_names_only() -> None:
    found = [
        (node.module, alias.name)
        for path in sorted((ROOT / "samples/plugin").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evalgate.")
        for alias in node.names
    ]
    assert {module for module, _ in found} == {"evalgate.plugins"}
    assert {name for _, name in found} <= set(evalgate.plugins.__all__)


def test_the_page_names_published_names_only() -> None:
    text = (ROOT / "docs/plugins.md").read_text("utf-8")
    assert set(re.findall(r"evalgate(?:\.\w+)*\.([A-Za-z_]+)\(", text)) <= set(evalgate.plugins.__all__)
    assert set(re.findall(r"`(evalgate\.[a-z_.]+)`", text)) <= {
        "evalgate.plugins",
        *(f"evalgate.{group}" for group in ("metrics", "formats", "agents", "reporters", "baselines")),
    }
