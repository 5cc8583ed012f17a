"""`evalgate plan`: cases, runs and cost from the stored history, without a run."""

import json
import re
import shlex
from pathlib import Path

import pytest

from evalgate.__main__ import main
from evalgate.baselines.serialization import dump_baseline
from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource, Usage

PAGE = (Path(__file__).parents[2] / "docs/plan.md").read_text("utf-8")
METRIC = "response_match_score"


def build_baseline(cases: int, runs: int) -> Baseline:
    usage = Usage(900, 100, 0.002)
    stored = [
        BaselineCase(
            "shop",
            f"case_{case}",
            "passed",
            "0" * 16,
            {METRIC: "1" * 16},
            tuple(
                BaselineRun(0, "answered", {METRIC: float(case % 4 > 0 or run % 4 > 0)}, 3.0, usage)
                for run in range(runs)
            ),
        )
        for case in range(cases)
    ]
    return Baseline(tuple(stored), (BaselineSource("2026-01-01T00:00:00+00:00", "1a2b3c4d", "main"),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".evalgate").mkdir()
    (tmp_path / ".evalgate/baseline.json").write_text(dump_baseline(build_baseline(40, 8)))
    (tmp_path / "evalgate.yaml").write_text(
        "agent: {kind: python, entry: 'agent.py:answer', concurrency: 4}\n"
        f"criteria: {{{METRIC}: 0.8}}\ngate: {{max_runs: 4}}\n"
    )
    return tmp_path


def test_the_table_and_the_advice(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-C", str(project), "--drop", "0.1"]) == 0

    text = capsys.readouterr().out
    assert "Planned for 40 cases from .evalgate/baseline.json, 8 stored runs of a case" in text
    assert f"{METRIC}: 0.94 on average, `max_regression` 0.05" in text
    assert re.search(r"^  3 +120 +120 k +\$0\.24 +90 s|2 min$", text, re.MULTILINE)
    assert re.search(r"^  auto +40 to 160 +40 k to 160 k +\$0\.08 to \$0\.32 ", text, re.MULTILINE)
    assert re.search(r"^- `runs: \w+` with 40 cases catches the drop 80% of the time\.$", text, re.MULTILINE)


def test_the_json_has_the_same_figures(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-C", str(project), "--json", "--runs", "2", "--cases", "80"]) == 0

    plan = json.loads(capsys.readouterr().out)
    (metric,) = plan["metrics"]
    assert [design["runs"] for design in metric["designs"]] == ["1", "2", "3", "5", "auto"]
    fixed = metric["designs"][:4]
    assert [design["cases"] for design in fixed] == sorted((each["cases"] for each in fixed), reverse=True)
    assert (metric["max_regression"], metric["cases_max_regression"]) == (0.05, 0.025)
    two = plan["costs"][1]
    assert two["agent_runs"] == [160, 160]
    assert two["tokens"] == pytest.approx([160_000] * 2)
    assert two["usd"] == pytest.approx([0.32] * 2)
    assert two["minutes"] == pytest.approx([160 * 3 / 4 / 60] * 2)
    assert any("like the 40 cases of the baseline" in each for each in plan["assumptions"])
    assert any("The number of cases holds for `max_regression: 0.025`" in each for each in plan["advice"])


def test_without_history_the_assumptions_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "-C", str(tmp_path), "--cases", "200", "--drop", "0.1"]) == 0
    text = capsys.readouterr().out
    assert "Planned for 200 cases without a baseline" in text
    assert "Assumed: pass or fail, 90% of the runs of every case pass at random" in text

    assert main(["plan", "-C", str(tmp_path), "--cases", "200", "--drop", "0.95"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"^  5 .*  (\S+)$", text, re.MULTILINE)[0] == "–"
    assert "No number of cases is enough." in text

    assert main(["plan", "-C", str(tmp_path)]) == 2
    assert "Say how many cases there would be with --cases N" in capsys.readouterr().err
    assert main(["plan", "-C", str(tmp_path), "--baseline", "none.json", "--cases", "9"]) == 2
    assert "none.json: there is no baseline yet" in capsys.readouterr().err


def test_an_exact_comparison_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = project / "evalgate.yaml"
    rules.write_text(rules.read_text().replace("max_runs: 4", "deterministic: true"))

    assert main(["plan", "-C", str(project)]) == 0
    assert "- `gate.deterministic` compares exactly while runs agree" in capsys.readouterr().out


def test_nan_is_no_share() -> None:
    for option in ("--drop", "--power"):
        assert main(["plan", option, "nan"]) == 2


def test_few_stored_runs_are_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".evalgate/baseline.json").write_text(dump_baseline(build_baseline(40, 1)))

    assert main(["plan", "-C", str(project)]) == 0
    text = capsys.readouterr().out
    assert "40 cases with one stored run: taken to pass at random as often as the whole suite" in text
    assert "fewer than 3 runs of some cases" in text


def test_the_page_shows_commands_that_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]

    for command in commands:
        assert main([*command[1:], "-C", str(project)]) == 0, command
    assert len(commands) == 3
    shown = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert main(["plan", "-C", str(project), "--drop", "0.1"]) == 0
    assert capsys.readouterr().out.endswith(shown[1])
