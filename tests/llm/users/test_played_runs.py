"""Simulated users in a whole run of the gate, played by a local server."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record, RunResult
from evalgate.runner.pipeline import run_gate
from evalgate.runner.plan import build_plan
from tests.openai_server import Body, Completion, ErrorReply, OpenAIServer, Reply

AGENT = """
def answer(text):
    return "For how many?" if "two" not in text else "Booked for two."
"""
SCENARIO = {"starting_prompt": "A room, please.", "conversation_plan": "Book a room for two."}
SET = {"eval_set_id": "rooms", "eval_cases": [{"eval_id": "book", "conversation_scenario": SCENARIO}]}
STORY = {
    "story": "You need a room for two.",
    "starting_sentence": "A room, please.",
    "goals": {"booked": []},
    "goal_details": [{"type": "text", "name": "booked", "keywords": ["booked"]}],
}
CHECK = """
def booked(case, run):
    return 1.0 if any("Booked" in reply.response for reply in run.replies) else 0.0
"""


class Nobody:
    """Watches no run."""

    def on_runs_planned(self, runs: int) -> None:
        """Nothing."""

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Nothing."""


def project(folder: Path, eval_set: Any, **config: Any) -> Path:
    (folder / "agent.py").write_text(AGENT)
    (folder / "check.py").write_text(CHECK)
    (folder / "rooms.json").write_text(json.dumps(eval_set))
    own = {
        "eval_sets": ["rooms.json"],
        "agent": {"entry": "agent.py:answer"},
        "custom_metrics": {"booked": "check.py:booked"},
        "criteria": {"booked": 1.0},
        **config,
    }
    (folder / "evalgate.yaml").write_text(yaml.safe_dump(own))
    return folder


def gated(folder: Path) -> Record:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "USER_KEY": "a-planted-key"}
    return run_gate(build_plan(Overrides(), thresholds_file=None, folder=folder, environ=environ), Nobody())


def user_at(server: OpenAIServer, **more: Any) -> dict[str, Any]:
    off = {"cache": {"mode": "off"}, "retries": 0}
    return {
        "provider": "custom",
        "model": "u",
        "base_url": server.url,
        "api_key": "${USER_KEY}",
        **off,
        **more,
    }


def talkative(body: Body) -> Reply:
    """For two, and over when it is booked."""
    return Completion("</finished>" if "Booked" in body["messages"][0]["content"] else "For two.")


def test_a_scenario_is_played_and_stands_in_the_record(tmp_path: Path) -> None:
    with OpenAIServer(script=talkative) as server:
        record = gated(project(tmp_path, SET, user=user_at(server)))

    (run,) = record.cases[0].runs
    assert record.verdict.status == "pass"
    assert [(turn.user, turn.actual and turn.actual.response) for turn in run.turns] == [
        ("A room, please.", "For how many?"),
        ("For two.", "Booked for two."),
    ]
    assert run.user_usage is not None
    assert (run.user_usage.input_tokens, run.user_usage.output_tokens) == (22, 14)
    assert record.totals.input_tokens == 22
    assert record.judge is None


def test_a_story_is_played_after_its_first_sentence(tmp_path: Path) -> None:
    def play(body: Body) -> Reply:
        return Completion("END" if "Booked" in body["messages"][0]["content"] else "For two.")

    criteria = {"orchestrate/journey_success": 1.0}
    with OpenAIServer(script=play) as server:
        record = gated(project(tmp_path, STORY, user=user_at(server), criteria=criteria))

    assert record.verdict.status == "pass"
    assert len(record.cases[0].runs[0].turns) == 2


def test_a_story_may_end_after_its_first_sentence(tmp_path: Path) -> None:
    criteria = {"orchestrate/journey_success": 1.0}
    with OpenAIServer() as server:
        own = user_at(server, stories="first_sentence")
        record = gated(project(tmp_path, STORY, user=own, criteria=criteria))

    assert record.verdict.status == "fail"
    assert len(record.cases[0].runs[0].turns) == 1


def test_a_user_who_is_down_is_not_the_agents_fault(tmp_path: Path) -> None:
    with OpenAIServer(script=lambda _: ErrorReply(500)) as server:
        record = gated(project(tmp_path, SET, user=user_at(server)))

    (run,) = record.cases[0].runs
    assert (record.verdict.status, run.outcome) == ("error", "faulted")
    assert run.failure is not None
    assert run.failure.kind == "user_outage"
    assert "a-planted-key" not in run.failure.message
    assert [turn.user for turn in run.turns] == ["A room, please."]


def test_without_a_user_a_scenario_has_no_verdict(tmp_path: Path) -> None:
    record = gated(project(tmp_path, SET))

    assert (record.verdict.exit_code, record.cases[0].runs[0].outcome) == (3, "not_run")


def test_a_user_whom_nobody_plays_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"evalgate.yaml:\d+:\d+: `user` names no model"):
        gated(project(tmp_path, SET, user={"max_turns": 3}))


def test_a_broken_template_is_refused_before_the_run(tmp_path: Path) -> None:
    where = r"yaml:14:3: `user.instructions`, line 1: is no template"
    with OpenAIServer() as server, pytest.raises(InvalidInputError, match=where):
        gated(project(tmp_path, SET, user=user_at(server, instructions="{{ conversation_plan")))


def test_an_unknown_persona_is_refused_at_its_case(tmp_path: Path) -> None:
    case = {"eval_id": "book", "conversation_scenario": {**SCENARIO, "user_persona": "WIZARD"}}
    with OpenAIServer() as server:
        folder = project(tmp_path, {**SET, "eval_cases": [case]}, user=user_at(server))
        with pytest.raises(InvalidInputError, match=r"rooms.json:1: book: the persona `WIZARD` is unknown"):
            gated(folder)


def test_googles_own_section_names_model_limit_and_template(tmp_path: Path) -> None:
    template = "{{ conversation_plan }} / {{ stop_signal }} / {{ conversation_history }}"
    own = {"model": "gemini-2.5-flash", "max_allowed_invocations": 2, "custom_instructions": template}
    config = {"criteria": {"response_match_score": 0.5}, "user_simulator_config": own}
    (tmp_path / "test_config.json").write_text(json.dumps(config))
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "rooms.evalset.json").write_text(json.dumps(SET))
    said = Overrides(eval_sets=("rooms.evalset.json",), agent="python:agent.py:answer")

    with pytest.raises(InvalidInputError, match="no key for provider `gemini`"):
        build_plan(said, thresholds_file=None, folder=tmp_path, environ={})
    plan = build_plan(said, thresholds_file=None, folder=tmp_path, environ={"GEMINI_API_KEY": "k"})

    assert plan.create_user(plan.suites[0].eval_set.cases[0], 1).usage is None


def test_a_section_of_users_wakes_no_model_where_all_is_written(tmp_path: Path) -> None:
    turn = {"user_content": {"parts": [{"text": "two"}]}}
    written = {"eval_set_id": "rooms", "eval_cases": [{"eval_id": "book", "conversation": [turn]}]}

    record = gated(project(tmp_path, written, user={"provider": "openai", "model": "gpt-4o"}))

    assert record.verdict.status == "pass"


@pytest.mark.parametrize(
    ("section", "base_url", "turns"),
    [
        ({}, "http://localhost:1/v1", 20),
        ({"max_turns": 3}, "http://localhost:1/v1", 3),
        ({"provider": "openai", "model": "gpt-9", "max_turns": 4}, None, 4),
    ],
)
def test_the_command_line_goes_before_the_file_and_leaves_the_rest(
    section: dict[str, Any], base_url: str | None, turns: int
) -> None:
    judge = {"provider": "custom", "model": "m", "base_url": "http://localhost:1/v1", "api_key": "${K}"}
    config = Config.model_validate({"judge": judge, **({"user": section} if section else {})})

    user = apply_overrides(config, Overrides(simulated_user="custom/other")).user

    assert user is not None
    assert (user.provider, user.model, user.base_url, user.max_turns) == ("custom", "other", base_url, turns)
    asked = user.resolve_model_config(config.judge)
    assert asked is not None
    assert (asked.provider, asked.model, asked.base_url) == ("custom", "other", base_url)


def test_a_test_config_keeps_what_it_says_of_users_beside_the_model(tmp_path: Path) -> None:
    simulator = {"model": "gemini-2.5-flash", "maxAllowedInvocations": 4}
    own = {"criteria": {"tool_trajectory_avg_score": 0.1}, "user_simulator_config": simulator}
    said = Overrides(("rooms.json",), "python:agent.py:answer", simulated_user="openai/u")
    with OpenAIServer(script=lambda body: Completion(f"{body['model']}?")) as server:
        project(tmp_path, SET)
        (tmp_path / "evalgate.yaml").unlink()
        (tmp_path / "test_config.json").write_text(json.dumps(own))
        environ = {"OPENAI_API_KEY": "a-planted-key", "OPENAI_BASE_URL": server.url, "HOME": str(tmp_path)}
        plan = build_plan(said, thresholds_file=None, folder=tmp_path, environ=environ)
        record = run_gate(plan, Nobody())

    assert [turn.user for turn in record.cases[0].runs[0].turns] == ["A room, please.", *["u?"] * 3]


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "nobody/x", "/x"])
def test_a_model_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^--simulated-user {name}: "):
        apply_overrides(Config(), Overrides(simulated_user=name))
