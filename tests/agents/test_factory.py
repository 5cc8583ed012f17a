"""Validation of the agent section: common settings and options of each kind."""

from pathlib import Path

import pytest

from evalgate.agents.factory import resolve_agent
from evalgate.config.loader import load_thresholds
from evalgate.core.errors import InvalidInputError


def find_problems(folder: Path, text: str, what: str = "") -> list[str]:
    (folder / "evalgate.yaml").write_text(text)
    rules = load_thresholds(folder / "evalgate.yaml", "evalgate.yaml")
    assert rules.config.agent is not None
    with pytest.raises(InvalidInputError) as raised:
        resolve_agent(rules.config.agent, what, rules)
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "agent: {kind: python, entry: agent.py}\n",
            [
                (
                    "evalgate.yaml:1:23: `agent.entry` must be `package.module:attribute` or "
                    "`file.py:attribute`, not 'agent.py'"
                )
            ],
        ),
        (
            "agent:\n  entry: a:b\n  entri: c\n  worker: 2\n",
            [
                "evalgate.yaml:3:3: `agent.entri` is not a known key. Did you mean `entry`?",
                "evalgate.yaml:4:3: `agent.worker` is not a known key. Did you mean `workers`?",
            ],
        ),
        (
            "agent: {kind: command, entry: a:b}\n",
            [
                "evalgate.yaml:1:1: the agent of kind `command` does not say what is gated: give `command`",
                (
                    "evalgate.yaml:1:24: `agent.entry` is not a known key. Known here: `command`, `concurrency`, `env`, "
                    "`env_file`, "
                    "`kind`, `memory`, `mode`, `otel`, `python`, `ramp_up`, `requests_per_minute`, `retries`, `setup`, "
                    "`timeout`, `trace`, `track_files` and `workers`."
                ),
            ],
        ),
        (
            "agent: {kind: docker, build: .}\n",
            ["evalgate.yaml:1:1: the agent of kind `docker` does not say what is gated: give `image`"],
        ),
        (
            "agent: {kind: docker, image: a, biuld: .}\n",
            ["evalgate.yaml:1:33: `agent.biuld` is not a known key. Did you mean `build`?"],
        ),
        (
            "agent: {kind: command, command: sh -c 'x}\n",
            ["evalgate.yaml:1:24: `agent.command` ends within quotation marks, or with a backslash"],
        ),
        (
            "agent: {kind: docker, image: a, command: sh -c 'x}\n",
            ["evalgate.yaml:1:33: `agent.command` ends within quotation marks, or with a backslash"],
        ),
        ("agent: {kind: command, command: ' '}\n", ["evalgate.yaml:1:24: `agent.command` must not be empty"]),
        ("agent: {kind: command, command: []}\n", ["evalgate.yaml:1:24: `agent.command` must not be empty"]),
        (
            "agent: {kind: comand, command: a}\n",
            ["evalgate.yaml:1:9: `comand` is not a kind of agent. Did you mean `command`?"],
        ),
    ],
)
def test_every_problem_is_reported_with_its_position(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert find_problems(tmp_path, text) == expected


def test_invalid_agent_option_names_the_command_line(tmp_path: Path) -> None:
    [problem] = find_problems(tmp_path, "agent: {}\n", what="agent.py")
    assert problem.startswith("--agent: `agent.entry` must be `package.module:attribute`")


def test_command_may_be_a_list(tmp_path: Path) -> None:
    path = tmp_path / "evalgate.yaml"
    path.write_text("agent: {kind: command, command: [node, my agent.mjs]}\n")
    rules = load_thresholds(path, "evalgate.yaml")
    assert rules.config.agent is not None
    assert resolve_agent(rules.config.agent, "", rules).name == "node 'my agent.mjs'"


def test_docker_agent_may_be_named_by_its_service(tmp_path: Path) -> None:
    path = tmp_path / "evalgate.yaml"
    path.write_text("agent: {kind: docker, service: weather, port: 8000}\n")
    rules = load_thresholds(path, "evalgate.yaml")
    assert rules.config.agent is not None
    assert resolve_agent(rules.config.agent, "", rules).name == "weather"
