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


def test_auto_begins_with_the_runs_that_the_rule_of_a_metric_needs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / "evalgate.yaml"
    file.write_text(
        file.read_text().replace(f"{METRIC}: 0.8", f"{METRIC}: {{threshold: 0.8, pass_hat_k: 3}}")
    )
    assert main(["plan", "-C", str(project), "--json"]) == 0

    cost = {each["runs"]: each["agent_runs"] for each in json.loads(capsys.readouterr().out)["costs"]}
    assert (cost["1"], cost["auto"]) == ([40, 40], [120, 160])


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
    assert "40 cases with one scored run: taken to pass at random as often as the whole suite" in text
    assert "fewer than 3 runs of some cases" in text


def build_uniform_baseline(
    score: float | None, runs: int, *, unscored: int = 0, metric: str = METRIC
) -> Baseline:
    scores = [*[score] * runs, *[None] * unscored]
    stored = [
        BaselineCase(
            "shop",
            f"case_{case}",
            "passed",
            "0" * 16,
            {metric: "1" * 16},
            tuple(BaselineRun(0, "answered", {metric: each}, 3.0) for each in scores),
        )
        for case in range(5)
    ]
    return Baseline(tuple(stored), (BaselineSource("2026-01-01T00:00:00+00:00", "1a2b3c4d", "main"),))


@pytest.mark.parametrize(
    ("baseline", "rules", "sentences"),
    [
        pytest.param(
            build_uniform_baseline(0.0, 10),
            {},
            [f"{METRIC}: an average of 0.00 cannot fall by 0.05.", "No number of cases is enough."],
            id="the lowest score",
        ),
        pytest.param(
            build_uniform_baseline(1.0, 10, metric="response_evaluation_score"),
            {"criteria": {"response_evaluation_score": 3}},
            [
                "response_evaluation_score: an average of 1.00 cannot fall by 0.20.",
                "No number of cases is enough.",
            ],
            id="the lowest score of another range",
        ),
        pytest.param(
            build_uniform_baseline(1.0, 10),
            {"gate": {"max_regression": 1}, "criteria": {METRIC: {"threshold": 0.8, "max_regression": 0.1}}},
            [
                (
                    f"{METRIC}: `max_regression` allows every drop, so none closes the gate. The number of cases "
                    "holds for `max_regression: 0.025`."
                )
            ],
            id="every drop is allowed",
        ),
        pytest.param(
            build_uniform_baseline(1.0, 10),
            {"gate": {"max_regression": 0.054}},
            [
                (
                    f"{METRIC}: drops below 0.054 are allowed, so one of 0.05 closes the gate at most half of the "
                    "time. The number of cases holds for `max_regression: 0.025`."
                )
            ],
            id="a drop near the allowed one",
        ),
        pytest.param(
            build_uniform_baseline(1.0, 1, unscored=19),
            {},
            [
                (
                    "The baseline holds fewer than 3 runs of some cases. `evalgate run --runs 5` on the default "
                    "branch and `evalgate baseline save` show smaller drops, once for all changes."
                ),
                (
                    "5 cases with one scored run: taken to pass at random as often as the whole suite, which is "
                    "the most that it can vary."
                ),
            ],
            id="runs without a score",
        ),
    ],
)
def test_the_advice_fits_odd_baselines(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    baseline: Baseline,
    rules: dict[str, object],
    sentences: list[str],
) -> None:
    (project / "evalgate.yaml").write_text(json.dumps({"criteria": {METRIC: 0.8}} | rules))
    (project / ".evalgate/baseline.json").write_text(dump_baseline(baseline))

    assert main(["plan", "-C", str(project)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for sentence in sentences:
        assert f"- {sentence}" in lines


def test_small_ranges_are_planned_in_their_own_numbers(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "own.py").write_text("def score(case):\n    return 0.01\n")
    (project / "evalgate.yaml").write_text(
        json.dumps(
            {
                "criteria": {"tiny": 0.005},
                "custom_metrics": {"tiny": {"entry": "own.py:score", "range": [0, 0.01]}},
            }
        )
    )
    (project / ".evalgate/baseline.json").write_text(
        dump_baseline(build_uniform_baseline(0.01, 10, metric="tiny"))
    )

    assert main(["plan", "-C", str(project)]) == 0
    text = capsys.readouterr().out
    assert "tiny: 0.01 on average, `max_regression` 0.0005\n" in text
    assert "cases to catch 0.0005\n" in text
    assert re.search(r"^  1 +0\.00\d{2,3} +[\d,]+$", text, re.MULTILINE)


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
