"""The published schema of the thresholds file: that of the models, described, and as strict as they are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from evalgate.core import plugin_registry
from tests.config.thresholds_schema import build_thresholds_schema

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs/evalgate.schema.json"


def test_the_published_schema_is_that_of_the_models(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        text = json.dumps(build_thresholds_schema(), indent=2, ensure_ascii=False)
        PUBLISHED.write_text(text + "\n", "utf-8")
    assert json.loads(PUBLISHED.read_text("utf-8")) == build_thresholds_schema()


def properties_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key at any depth, with what the schema says of it."""
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from properties_of(each, f"{path}[{index}]")
    if isinstance(schema, dict):
        if isinstance(found := schema.get("properties"), dict):
            yield from ((f"{path}.{key}", value) for key, value in found.items())
        for name, each in schema.items():
            yield from properties_of(each, f"{path}/{name}")


def test_every_key_has_a_description() -> None:
    named = list(properties_of(json.loads(PUBLISHED.read_text("utf-8"))))
    assert len(named) > 150
    assert [path for path, said in named if len(said.get("description", "").split()) < 2] == []


def test_runs_has_no_default_but_a_rule() -> None:
    runs = json.loads(PUBLISHED.read_text("utf-8"))["properties"]["runs"]
    assert "default" not in runs
    assert "When absent: `auto` if the baseline has 3 or more runs" in runs["description"]


def test_every_section_of_criteria_names_every_metric() -> None:
    schema = json.loads(PUBLISHED.read_text("utf-8"))
    for criteria in (schema, schema["$defs"]["CaseRule"]):
        assert criteria["properties"]["criteria"]["properties"].keys() == plugin_registry.METRICS.keys()


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("criteria: {response_match_score: 0.8}", True),
        ("criteria: {response_match_score: 1.2}", False),
        ("criteria: {response_match_score: {threshold: 80}}", False),
        ("criteria: {response_match_score: {threshold: 0.8, max_regression: 0.1}}", True),
        ("criteria: {response_match_score: {threshold: 0.8, max_regression: 3}}", False),
        ("criteria: {tool_trajectory_avg_score: {threshold: 1.0, match_type: IN_ORDER}}", True),
        ("criteria: {response_evaluation_score: 4.5}", True),
        ("criteria: {response_evaluation_score: 0.8}", False),
        ("criteria: {response_evaluation_score: {threshold: 4, max_regression: 3}}", True),
        ("criteria: {my_metric: 17}", True),
        ("criteria: {budget/tokens: 6000}", True),
        ("criteria: {budget/tokens: {max: 6000, max_increase: 0.15, p95: 9000, gates: false}}", True),
        ("criteria: {budget/tokens: {maximum: 6000}}", False),
        ("criteria: {budget/tokens: -1}", False),
        ("cases: [{ids: a, criteria: {budget/tokens: 9000}}]", True),
        ("cases: [{ids: a, criteria: {response_match_score: 2}}]", False),
        ("cases: [{ids: a, criteria: {response_match_score: 0.5}}]", True),
        ("agent: {kind: python, entry: a.py:b, timeuot: 5}", False),
        ("agent: {kind: acme, whatever: 5}", True),
    ],
)
def test_an_editor_finds_what_a_run_would_refuse(text: str, is_valid: bool) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text("utf-8")))
    assert validator.is_valid(yaml.safe_load(text)) is is_valid


@pytest.mark.parametrize(
    "path",
    [ROOT / "evalgate/cli/scaffold/evalgate.yaml", *sorted(ROOT.glob("samples/**/evalgate.yaml"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_file_that_comes_with_evalgate_is_valid(path: Path) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text("utf-8")), json.loads(PUBLISHED.read_text("utf-8")))
