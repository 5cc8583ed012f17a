"""A file with the name `evalgate.json` is evalgate's own, whatever keys it has."""

import json
from pathlib import Path

import pytest

from evalgate.config.loader import load_thresholds

CRITERIA = {"response_match_score": 0.5}


@pytest.mark.parametrize(
    "section",
    [{}, {"budget": {"tokens": 10}}, {"suites": {"orders": {"eval_sets": ["a.json"]}}}, {"prices": {}}],
    ids=["criteria alone", "budget", "suites", "prices"],
)
def test_its_sections_are_read(tmp_path: Path, section: dict[str, object]) -> None:
    path = tmp_path / "evalgate.json"
    path.write_text(json.dumps({"criteria": CRITERIA, **section}))

    found = load_thresholds(path, "evalgate.json")

    assert found.dialect == "evalgate"
    assert found.notices == ()


def test_a_file_of_another_name_with_criteria_alone_is_google_adks(tmp_path: Path) -> None:
    path = tmp_path / "test_config.json"
    path.write_text(json.dumps({"criteria": CRITERIA}))

    assert load_thresholds(path, "test_config.json").dialect == "adk"
