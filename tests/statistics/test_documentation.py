"""What the page about the statistics shows is what the code does."""

import re
import runpy
from pathlib import Path

import pytest
from pydantic import BaseModel

from evalgate.config.schema.gate import GateConfig, StatisticsConfig
from evalgate.statistics.case_regression import StoredOutcomes, build_confirmation_plan
from evalgate.statistics.control_test import CaseSuspect, PairsWanted, plan_control_runs
from evalgate.statistics.parameters import MetricRule, Parameters

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "statistics.md").read_text("utf-8")


def test_the_picture_is_up_to_date() -> None:
    drawn = runpy.run_path(str(DOCS / "luck.py"))["svg"]()

    assert drawn == (DOCS / "luck.svg").read_text("utf-8"), "run `python docs/luck.py`"


@pytest.mark.parametrize("row", [line for line in PAGE.splitlines() if line.startswith("| passed ")])
def test_the_failures_that_confirm_a_case(row: str) -> None:
    baseline, cases, failures = (cell.strip() for cell in row.strip("|").split("|"))
    scores = (1000,) * int(baseline.split()[-1])
    plan = build_confirmation_plan(
        {("m", str(index)): scores for index in range(int(cases))},
        case_alpha=0.02,
        case_drop=0.25,
        confirm_runs=10,
    )

    assert plan.need.get(("m", "0")) == (int(failures) if failures.isdigit() else None)


def test_the_pairs_that_show_a_total_break() -> None:
    rows = re.findall(
        r"^\| ([\d to]+) \| (\d+) \|$", PAGE.split("## Control runs")[1].split("## ")[0], re.MULTILINE
    )
    assert len(rows) == 4
    for suspects, pairs in rows:
        for count in map(int, suspects.split(" to ")):
            names = [f"case {at}" for at in range(count)]
            cases = [CaseSuspect(name, StoredOutcomes(10, 0)) for name in names]
            assert plan_control_runs(cases, (), Parameters()) == PairsWanted(dict.fromkeys(names, int(pairs)))


def test_the_defaults() -> None:
    table = PAGE.split("## Defaults")[1].split("## Limits")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `"): float(value) for _, name, value, *_ in rows}
    parameters, rule = Parameters(), MetricRule()

    assert documented == {
        name: getattr(rule if name == "max_drop" else parameters, name) for name in documented
    }
    assert len(documented) == 8


@pytest.mark.parametrize(
    ("section", "page"),
    [(GateConfig, "thresholds.md"), (StatisticsConfig, "statistics.md")],
    ids=["gate", "gate.statistics"],
)
def test_every_setting_has_its_row(section: type[BaseModel], page: str) -> None:
    rows = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("| `")]
    for name in section.model_fields:
        assert any(row.startswith(f"| `{name}` |") for row in rows), name
