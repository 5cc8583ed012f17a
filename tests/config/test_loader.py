"""Thresholds files: three syntaxes of ours, one of Google ADK's, and everything that can be wrong in them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.factory import resolve_agent
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.judge import UserConfig
from evalgate.config.schema.thresholds import parse_adk_version
from evalgate.core.errors import InvalidInputError
from evalgate.core.score_ranges import Range
from evalgate.core.types import Criterion
from tests.cli.test_cli import AGENT, eval_set
from tests.commands import evalgate

NO_CACHE = """\
eval_sets: ["evals/*.evalset.json"]
judge: {model: m, base_url: "http://localhost:1", cache: {mode: off}}
"""

YAML = """\
version: 1
eval_sets: ["evals/*.evalset.json"]
agent: {kind: python, entry: "agent.py:answer", timeout: 5, env: [KEY]}
runs: 3
criteria:
  tool_trajectory_avg_score: {threshold: 1.0, match_type: IN_ORDER}
  response_match_score: 0.8
gate: {baseline: b.json, max_regression: 0.02}
"""

TOML = """\
version = 1
eval_sets = ["evals/*.evalset.json"]
runs = 3
[agent]
kind = "python"
entry = "agent.py:answer"
timeout = 5
env = ["KEY"]
[criteria]
tool_trajectory_avg_score = {threshold = 1.0, match_type = "IN_ORDER"}
response_match_score = 0.8
[gate]
baseline = "b.json"
max_regression = 0.02
"""

JSON = json.dumps(
    {
        "version": 1,
        "eval_sets": ["evals/*.evalset.json"],
        "agent": {"kind": "python", "entry": "agent.py:answer", "timeout": 5, "env": ["KEY"]},
        "runs": 3,
        "criteria": {
            "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
            "response_match_score": 0.8,
        },
        "gate": {"baseline": "b.json", "max_regression": 0.02},
    }
)

PYPROJECT = "[project]\nname = 'x'\n" + TOML.replace("version = 1", "[tool.evalgate]\nversion = 1").replace(
    "[agent]", "[tool.evalgate.agent]"
).replace("[criteria]", "[tool.evalgate.criteria]").replace("[gate]", "[tool.evalgate.gate]")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("evalgate.yaml", YAML),
        ("evalgate.toml", TOML),
        ("evalgate.json", JSON),
        ("pyproject.toml", PYPROJECT),
    ],
)
def test_every_syntax_has_the_same_meaning(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path, name, text)
    assert find_thresholds_file(tmp_path) == path
    rules = load_thresholds(path, name)
    assert rules.dialect == "evalgate"
    assert rules.criteria == (
        Criterion("tool_trajectory_avg_score", 1.0, {"match_type": "IN_ORDER"}),
        Criterion("response_match_score", 0.8),
    )
    assert rules.config.agent is not None
    assert (rules.config.agent.model_extra, rules.config.agent.timeout) == ({"entry": "agent.py:answer"}, 5)
    assert (rules.config.runs, rules.config.gate.max_regression) == (3, 0.02)


def test_a_pyproject_without_our_table_is_no_thresholds_file(tmp_path: Path) -> None:
    written(tmp_path, "pyproject.toml", "[project]\nname = 'x'\n")
    assert find_thresholds_file(tmp_path) is None


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_name_that_leads_to_no_file_is_found_but_cannot_be_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "evalgate.toml"
    (tmp_path / "pyproject.toml").mkdir()  # may be of any tool, and is not ours
    assert find_thresholds_file(tmp_path) is None
    path.mkdir() if kind == "folder" else path.symlink_to("gone.toml")
    assert find_thresholds_file(tmp_path) == path
    message = "is a folder" if kind == "folder" else "is a link that leads nowhere"
    with pytest.raises(InvalidInputError, match=rf"^evalgate\.toml: {message}"):
        load_thresholds(path, "evalgate.toml")
    written(tmp_path, "evalgate.yaml", YAML)
    assert find_thresholds_file(tmp_path) == tmp_path / "evalgate.yaml"


def test_a_threshold_of_adk_rs_above_all_scores_is_refused(tmp_path: Path) -> None:
    text = "version: 1\ncriteria: {adk-rs/final_response_match_v1: 1.5}\n"
    with pytest.raises(
        InvalidInputError, match=r"final_response_match_v1\.threshold` should be between 0 and 1"
    ):
        load_thresholds(written(tmp_path, "evalgate.yaml", text), "evalgate.yaml")


def test_an_adk_test_config_keeps_its_own_rules(tmp_path: Path) -> None:
    text = '{"criteria": {"response_evaluation_score": 4, "m": {"threshold": -1, "extra": 2}}, "other": {}}'
    rules = load_thresholds(written(tmp_path, "test_config.json", text), "test_config.json")
    assert rules.dialect == "adk"
    assert rules.criteria == (
        Criterion("response_evaluation_score", 4.0, range=Range(1.0, 5.0)),
        Criterion("m", -1.0, {"extra": 2}),
    )


TEMPLATE = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"


def of_users(tmp_path: Path, section: object) -> UserConfig | None:
    text = json.dumps({"criteria": {"m": 1}, "user_simulator_config": section})
    return load_thresholds(written(tmp_path, "test_config.json", text), "test_config.json").config.user


@pytest.mark.parametrize(
    ("section", "changed"),
    [
        ({}, {}),
        ({"type": "llm_backed", "unknown": 1}, {}),
        ({"type": None, "max_allowed_invocations": "5"}, {"max_turns": 5}),
        ({"maxAllowedInvocations": 0}, {"max_turns": 0}),
        ({"custom_instructions": TEMPLATE}, {"instructions": TEMPLATE}),
        ({"customInstructions": None}, {}),
        ({"includeFunctionCalls": True}, {"include_function_calls": True}),
        (
            {"model_configuration": {"temperature": 0.3, "thinking_config": {"thinking_budget": 10}}},
            {"temperature": 0.3},
        ),
        (
            {"modelConfiguration": {"maxOutputTokens": 9, "topP": 0.5, "stopSequences": ["."]}},
            {"max_tokens": 9, "generation": {"top_p": 0.5, "stop": ["."]}},
        ),
    ],
)
def test_user_settings_of_google_adk_are_converted(
    section: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    assert of_users(tmp_path, section) == UserConfig(**{"model": "gemini-2.5-flash", **changed})


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"type": "llm_audio"}, "type` should be 'llm_backed'"),
        ({"max_allowed_invocations": -2}, "max_allowed_invocations` should be greater"),
        ({"custom_instructions": "Be kind."}, "must hold `{{ stop_signal }}`, `{{ conversation_plan }}` and"),
        ({"custom_instructions": "{% if %}"}, "custom_instructions` is no template: "),
        (
            {"model_configuration": {"temperature": "hot"}},
            "model_configuration.temperature` must be a number",
        ),
    ],
)
def test_invalid_user_settings_are_refused(section: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(problem)):
        of_users(tmp_path, section)


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        (
            "evalgate.yaml",
            "version: 1\nrunz: 3\ncriteria:\n  a: 1.5\n  b: {treshold: 1}\nagent: {kind: python, workers: many}\n",
            [
                "evalgate.yaml:2:1: `runz` is not a known key. Did you mean `runs`?",
                "evalgate.yaml:4:3: `criteria.a.threshold` should be between 0 and 1",
                "evalgate.yaml:5:3: `criteria.b.threshold` is missing",
                "evalgate.yaml:6:23: `agent.workers` must be a whole number, not 'many'",
            ],
        ),
        (
            "evalgate.yaml",
            "criteria:\n  response_evaluation_score: 5.5\n  safety_v1: {threshold: -1}\n  m: .inf\n",
            [
                "evalgate.yaml:2:3: `criteria.response_evaluation_score.threshold` should be between 1 and 5, as its scores are",
                "evalgate.yaml:3:15: `criteria.safety_v1.threshold` should be between 0 and 1",
                "evalgate.yaml:4:3: `criteria.m.threshold` must be a finite number, not inf",
            ],
        ),
        (
            "evalgate.yaml",
            (
                "criteria:\n  response_evaluation_score: {threshold: 4, max_drop: 4.5}\n"
                "  m: {threshold: 0, max_regression: 2}\n"
                "cases:\n- ids: a\n  criteria: {response_evaluation_score: 0.5, m: 1.5, n: high}\n"
            ),
            [
                "evalgate.yaml:2:45: `criteria.response_evaluation_score.max_drop` should be between 0 and 4, for its scores are between 1 and 5",
                "evalgate.yaml:3:21: `criteria.m.max_regression` should be between 0 and 1",
                "evalgate.yaml:6:14: `cases[0].criteria.response_evaluation_score` should be between 1 and 5, as its scores are",
                "evalgate.yaml:6:46: `cases[0].criteria.m` should be between 0 and 1",
                "evalgate.yaml:6:54: `cases[0].criteria.n` must be a number, not 'high'",
            ],
        ),
        (
            "evalgate.yaml",
            (
                "criteria: {tone: 0.5, wit: 11, ease: 0.5, calm: 2}\ncustom_metrics:\n"
                "  tone: {entry: a.b, range: [1, 5]}\n  wit: {entry: a.b, range: [-10, 10]}\n"
                "  ease: {entry: a.b, range: [5, 1]}\n  calm: {entry: a.b, range: [1, 2, 3]}\n"
            ),
            [
                "evalgate.yaml:1:12: `criteria.tone.threshold` should be between 1 and 5, as its scores are",
                "evalgate.yaml:1:23: `criteria.wit.threshold` should be between -10 and 10, as its scores are",
                "evalgate.yaml:5:22: `custom_metrics.ease.range` must name the lowest score first, as [1, 5]: 5 is not below 1",
                "evalgate.yaml:6:22: `custom_metrics.calm.range` must be the lowest and the highest score, as [1, 5]",
            ],
        ),
        ("evalgate.yaml", "a: [1\nb: 2", ["evalgate.yaml:2:2: not YAML: did not find expected ',' or ']'"]),
        ("evalgate.yaml", "runs: 1\nruns: 2\n", ["evalgate.yaml:2:1: `runs` is given twice"]),
        (
            "evalgate.yaml",
            ("gate: {anchor: off}\n"),
            [
                (
                    "evalgate.yaml:1:8: `gate.anchor` must be a baseline, such as "
                    "`branch:evalgate-baseline@v1.2.0`, or an object with `baseline`, not false: without an "
                    "anchor, leave the key out"
                ),
            ],
        ),
        (
            "evalgate.yaml",
            (
                "gate: {baseline: '', quarantine: ''}\n"
                "judge: {model: m, anchors: ''}\nuser: {personas: '', prompt: ''}\n"
            ),
            [
                "evalgate.yaml:1:8: `gate.baseline` must not be empty",
                "evalgate.yaml:1:22: `gate.quarantine` must not be empty",
                "evalgate.yaml:2:19: `judge.anchors` must not be empty",
                "evalgate.yaml:3:8: `user.personas` must not be empty",
                "evalgate.yaml:3:22: `user.prompt` must not be empty",
            ],
        ),
        ("evalgate.yaml", "- 1\n", ["evalgate.yaml:1:1: the file must be an object, not a list"]),
        (
            "evalgate.yaml",
            "adk_version: 2.3\n",
            [
                (
                    'evalgate.yaml:1:1: `adk_version` must be quoted, as "2.3": 2.10 without quotes is the '
                    "number 2.1"
                )
            ],
        ),
        (
            "evalgate.yaml",
            "gate: {max_regression: .nan}\n",
            ["evalgate.yaml:1:8: `gate.max_regression` must be a finite number, not nan"],
        ),
        (
            "evalgate.yaml",
            "criteria: {a: false, b: {threshold: '0.5'}}\ngate: {max_regression: no, max_failed_cases: yes}\nruns: '2'\n",
            [
                "evalgate.yaml:1:12: `criteria.a.threshold` must be a number, not false",
                "evalgate.yaml:1:26: `criteria.b.threshold` must be a number, not '0.5'",
                "evalgate.yaml:2:8: `gate.max_regression` must be a number, not false",
                "evalgate.yaml:2:28: `gate.max_failed_cases` must be a whole number, not true",
                "evalgate.yaml:3:1: `runs` must be `auto` or a whole number from 1 to 1000, not '2'",
            ],
        ),
        (
            "evalgate.yaml",
            "agent: {env: [A=B]}\n",
            [
                (
                    "evalgate.yaml:1:15: `agent.env[0]` must be the name of a variable alone, not `A=…`: its "
                    "value is the environment's"
                )
            ],
        ),
        (
            "evalgate.toml",
            "version = 1\n[gate]\nmax_regresion = 0.1\n",
            ["evalgate.toml:3:1: `gate.max_regresion` is not a known key. Did you mean `max_regression`?"],
        ),
        (
            "test_config.json",
            '{\n  "criteria": {"a": null, "b": "high"}\n}',
            [
                "test_config.json:2:21: `criteria.a.threshold` must be a number, not null",
                "test_config.json:2:32: `criteria.b.threshold` must be a number, not 'high'",
            ],
        ),
        ("test_config.json", '{"criterias": {}}', ["test_config.json:1:1: `criteria` is missing"]),
    ],
)
def test_every_problem_is_listed_at_its_place(
    tmp_path: Path, name: str, text: str, problems: list[str]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        load_thresholds(written(tmp_path, name, text), name)
    assert [str(problem) for problem in caught.value.problems] == problems


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"nope.yaml: no such file. `evalgate init` writes a thresholds file"
    ):
        load_thresholds(tmp_path / "nope.yaml", "nope.yaml")


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    config = load_thresholds(written(tmp_path, "evalgate.yaml", YAML), "evalgate.yaml").config
    said = Overrides(runs=1, timeout=9.0, env=("TOKEN",), max_regression=0.5, eval_sets=("x.json",))
    over = apply_overrides(config, said)
    assert over.agent is not None
    assert (over.runs, over.agent.timeout, over.agent.env) == (1, 9.0, ("KEY", "TOKEN"))
    assert (over.gate.max_regression, over.gate.baseline, over.eval_sets) == (0.5, "b.json", ("x.json",))


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("python:agent.py:answer", "python", "agent.py:answer"),
        ("command:node agent.mjs", "command", "node agent.mjs"),
        ("replay:recorded/results.json", "replay", "recorded/results.json"),
    ],
)
def test_the_agent_option_replaces_the_agent_and_keeps_other_settings(
    tmp_path: Path, text: str, kind: str, what: str
) -> None:
    rules = load_thresholds(written(tmp_path, "evalgate.yaml", YAML), "evalgate.yaml")
    said = Overrides(agent=text)
    settings = apply_overrides(rules.config, said).agent
    assert settings is not None
    agent = resolve_agent(settings, said.agent_name, rules)
    assert (agent.settings.kind, agent.name, agent.settings.timeout) == (kind, what, 5)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Overrides(agent="agent.py"), "--agent agent.py: must be KIND:WHAT"),
        (Overrides(adk_version="3"), "--adk-version"),
        (Overrides(agent="python:a:b", timeout=float("nan")), "--timeout must be a finite number, not nan$"),
        (
            Overrides(agent="python:a:b", env=("A b",)),
            "--env must be the name of a variable, as OPENAI_API_KEY, not 'A b'$",
        ),
        (
            Overrides(agent="python:a:b", env=("KEY=sk-1",)),
            "--env must be the name of a variable alone, not `KEY=…`",
        ),
    ],
)
def test_a_wrong_option_is_named(said: Overrides, message: str) -> None:
    from evalgate.config.schema.thresholds import Config

    with pytest.raises(InvalidInputError, match=message):
        apply_overrides(Config(), said)


@pytest.mark.parametrize(("text", "version"), [("2.3", (2, 3)), ("2.3.0", (2, 3)), ("2.13", (2, 13))])
def test_adk_versions(text: str, version: tuple[int, int]) -> None:
    assert parse_adk_version(text) == version


# --- every problem at once, and what was meant --------------------------------------------------------------

EVERY = """\
runns: 3
agent: {kind: python, entri: "a.py:answer", timeot: 3}
criteria:
  tool_trajectory_avg_score: {threshold: 1.0, mtch_type: IN_ORDER, match_type: in_ordr}
  tool_trajectory_avg_scor: 1.0
  response_match_score: {treshold: 0.8, min_men: 1}
  final_response_match_v2: {threshold: 0.5, judge_model_options: {num_sample: 3}}
  rubric_based_final_response_quality_v1: {threshold: 0.5, rubrcs: []}
  trpc/tool_trajectory_avg_score: {threshold: 0.5, toolTrajectory: {orderSensitve: true}}
  trpc/llm_final_response: {threshold: 0.5, llmJudg: {}}
  trpc/final_response_avg_score: {threshold: 0.5, finalResponse: {text: {matchStrateg: exact}}}
  adk-rs/tool_trajectory_avg_score: {threshold: 0.5, empty_is_mach: true}
  orchestrate/keyword_match: {threshold: 2, judge_modl: x}
gate: {max_regresion: 0.1, statistics: {alpa: 0.1}}
cases:
  - {ids: [a], criteria: {response_match_score: {treshold: 1}}, tgs: [a]}
"""
MEANT = """\
evalgate.yaml:1: `runns` is not a known key. Did you mean `runs`?
evalgate.yaml:2: the agent of kind `python` does not say what is gated: give `entry`
evalgate.yaml:2: `agent.entri` is not a known key. Did you mean `entry`?
evalgate.yaml:2: `agent.timeot` is not a known key. Did you mean `timeout`?
evalgate.yaml:4: `criteria.tool_trajectory_avg_score.mtch_type` is not a known key. Did you mean `match_type`?
evalgate.yaml:4: `criteria.tool_trajectory_avg_score.match_type` should be 'EXACT', 'IN_ORDER' or 'ANY_ORDER', not 'IN_ORDR'. Did you mean `IN_ORDER`?
evalgate.yaml:5: `tool_trajectory_avg_scor` is not a metric that evalgate knows. Did you mean `tool_trajectory_avg_score`?
evalgate.yaml:6: `criteria.response_match_score.threshold` is missing
evalgate.yaml:6: `criteria.response_match_score.treshold` is not a known key. Did you mean `threshold`?
evalgate.yaml:6: `criteria.response_match_score.min_men` is not a known key. Did you mean `min_mean`?
evalgate.yaml:7: `criteria.final_response_match_v2.judge_model_options.num_sample` is not a known key. Did you mean `num_samples`?
evalgate.yaml:8: `criteria.rubric_based_final_response_quality_v1.rubrcs` is not a known key. Did you mean `rubrics`?
evalgate.yaml:9: `criteria.trpc/tool_trajectory_avg_score.toolTrajectory.orderSensitve` is not a known key. Did you mean `orderSensitive`?
evalgate.yaml:10: `criteria.trpc/llm_final_response.llmJudg` is not a known key. Did you mean `llmJudge`?
evalgate.yaml:11: `criteria.trpc/final_response_avg_score.finalResponse.text.matchStrateg` is not a known key. Did you mean `matchStrategy`?
evalgate.yaml:12: `criteria.adk-rs/tool_trajectory_avg_score.empty_is_mach` is not a known key. Did you mean `empty_is_match`?
evalgate.yaml:13: `criteria.orchestrate/keyword_match.threshold` should be between 0 and 1
evalgate.yaml:13: `criteria.orchestrate/keyword_match.judge_modl` is not a known key. Did you mean `judge_model`?
evalgate.yaml:14: `gate.max_regresion` is not a known key. Did you mean `max_regression`?
evalgate.yaml:14: `gate.statistics.alpa` is not a known key. Did you mean `alpha`?
evalgate.yaml:16: `cases[0].criteria.response_match_score.threshold` is missing
evalgate.yaml:16: `cases[0].criteria.response_match_score.treshold` is not a known key. Did you mean `threshold`?
evalgate.yaml:16: `cases[0].tgs` is not a known key. Did you mean `tags`?
"""


def without_columns(text: str) -> str:
    return re.sub(r"^(\S+:\d+):\d+:", r"\1:", text, flags=re.MULTILINE)


@pytest.mark.parametrize("command", ["validate", "run"])
def test_every_problem_of_a_file_is_named_at_once(command: str, tmp_path: Path) -> None:
    (tmp_path / "evalgate.yaml").write_text(EVERY)
    (tmp_path / "a.evalset.json").write_text(eval_set("hello"))
    done = evalgate(command, "a.evalset.json", cwd=tmp_path)
    assert (done.code, without_columns(done.err)) == (2, MEANT)


def test_the_criterion_of_an_invalid_custom_metric_is_not_unknown(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def score(case, run):\n    return 1\n")
    (tmp_path / "evalgate.yaml").write_text(
        "criteria: {slow: 0.5, right: 0.5, nameless: {threshold: 7, gates: 5}}\ncustom_metrics:\n"
        "  slow: {entry: 'own.py:score', timeout: 0}\n  right: 'own.py:score'\n  nameless: {}\n"
    )
    (tmp_path / "a.evalset.json").write_text(eval_set("hello"))
    done = evalgate("validate", "a.evalset.json", cwd=tmp_path)
    assert (done.code, done.err.splitlines()) == (
        2,
        [
            "evalgate.yaml:1:46: `criteria.nameless.threshold` should be between 0 and 1",
            "evalgate.yaml:1:60: `criteria.nameless.gates` must be true or false, not 5",
            "evalgate.yaml:3:33: `custom_metrics.slow.timeout` should be greater than 0",
            "evalgate.yaml:5:3: `custom_metrics.nameless.entry` is missing",
        ],
    )


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        (
            "test_config.json",
            '{"criteria": {"tool_trajectory_avg_scor": 1.0,\n"response_match_score": {"treshold": 1},\n"response_evaluation_score": 0.8,\n"tool_trajectory_avg_score": {"threshold": 1, "match_type": "ORDER"}}}',
            [
                "test_config.json:1: `tool_trajectory_avg_scor` is not a metric",
                "test_config.json:2: `criteria.response_match_score.threshold` is missing",
                "test_config.json:3: `criteria.response_evaluation_score`: no score misses the threshold 0.8",
                "test_config.json:4: `criteria.tool_trajectory_avg_score.match_type` should be ",
            ],
        ),
        (
            "own.metrics.json",
            '[{"metricName": "final_response_avg_scor"},\n{"metricNam": "x"},\n{"metricName": "llm_final_response", "criterion": {"llmJudg": {}}}]',
            [
                "own.metrics.json:1: `final_response_avg_scor` is no evaluator of tRPC-Agent-Go's own",
                "own.metrics.json:2: `[1].metricName` is missing",
                "own.metrics.json:3: `criteria.llm_final_response.llmJudg` is not a known key. Did you mean `llmJudge`?",
            ],
        ),
    ],
)  # fmt: skip
def test_every_problem_of_another_owners_file_is_named_at_once(
    name: str, text: str, problems: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "a.evalset.json").write_text(eval_set("hello"))
    done = evalgate("validate", "a.evalset.json", "-c", name, cwd=tmp_path)
    lines = without_columns(done.err).splitlines()
    assert (done.code, len(lines)) == (2, len(problems)), done.err
    assert [line for line, begin in zip(lines, problems, strict=True) if not line.startswith(begin)] == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "test_config.json",
            {
                "criteria": {"tool_trajectory_avg_score": {"threshold": 1.0, "mtch_type": "IN_ORDER"}},
                "custom_metrcs": {},
                "customMetrics": {"mine": {"codeConfig": {"name": "a.b"}, "metric": {}}},
                "userSimulatorConfig": {"maxAllowedInvocation": 3},
            },
            ("3 keys of test_config.json are read by nothing: `custom_metrcs` (line 1; did you mean `custom_metrics`?); "
            "`metric` (line 1; did you mean `metric_info`?); `maxAllowedInvocation` (line 1; did you mean `max_allowed_invocations`?).\n"
            "1 key of test_config.json is read by nothing: `mtch_type` (line 1; did you mean `match_type`?)."),
        ),
        (
            "own.metrics.json",
            [{"metricName": "final_response_avg_score", "treshold": 1, "criterion": {"finalResponse": {"text": {}}}}],
            "1 key of own.metrics.json is read by nothing: `treshold` (line 1; did you mean `threshold`?).",
        ),
    ],
)  # fmt: skip
def test_keys_that_the_owner_of_the_file_ignores_are_reported(
    name: str, value: object, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(json.dumps(value))
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "a.evalset.json").write_text(eval_set("hello"))
    done = evalgate("validate", "a.evalset.json", "-c", name, cwd=tmp_path)
    assert (done.code, sentence in done.out) == (0, True), done.out + done.err
    ran = evalgate("run", "a.evalset.json", "-c", name, "--agent", "python:agent.py:answer", cwd=tmp_path)
    assert all(f"Note: {line}" in ran.out for line in sentence.splitlines()), ran.out


def test_the_cache_of_the_judge_is_off_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "evalgate.yaml").write_text(NO_CACHE)
    judge = load_thresholds(tmp_path / "evalgate.yaml", "evalgate.yaml").config.judge
    assert judge is not None
    assert judge.cache.mode == "off"
