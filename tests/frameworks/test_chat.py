"""A conversation with an ADK agent at a terminal, saved in each format, passes against the same agent."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.commands import evalgate
from tests.frameworks import AGENTS
from tests.pseudo_terminal import PseudoTerminal

pytestmark = pytest.mark.slow
PROMPT = "You    > "
CRITERIA = {
    "adk": {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0},
    "adk-rs": {"adk-rs/tool_trajectory_avg_score": 1.0, "adk-rs/final_response_match_v1": 1.0},
    "trpc": {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0},
    "orchestrate": {"orchestrate/journey_success": 1.0},
}


def test_a_conversation_with_an_adk_agent_becomes_a_case_of_each_format(adk: str, tmp_path: Path) -> None:
    shutil.copytree(AGENTS / "adk", tmp_path, dirs_exist_ok=True)
    (tmp_path / "state.json").write_text('{"shop": "Acme"}')
    agent = ("--agent", "adk:desk", "--python", adk)
    with PseudoTerminal("chat", *agent, "--state", "state.json", cwd=tmp_path) as terminal:
        terminal.answer(PROMPT, "Where is 5?")
        turn = terminal.answer(PROMPT, "/state")
        assert 'says     Let me look.  [desk]\ncall     get_order {"order_id": "5"}  [desk]\n' in turn
        assert (
            'result   get_order {"order_id": "5", "status": "shipped"}\nAgent    Order 5 has shipped.\n'
            in turn
        )
        assert "20 tokens in, 8 out)" in turn
        assert '"shop": "Acme"' in terminal.answer(PROMPT, "/save evals/adk.evalset.json")
        terminal.answer("Id of the case [where_is_5]: ", "")
        terminal.wait_for("1 case written in the format adk.")
        terminal.wait_for(PROMPT)
        terminal.type_text("\x04")
        assert terminal.wait_for_end() == 0

    (tmp_path / "messages.txt").write_text("Where is 5?\n")
    for to, criteria in CRITERIA.items():
        out = f"evals/{to}.evalset.json"
        if to != "adk":
            done = evalgate(
                "record",
                *agent,
                "--from",
                "messages.txt",
                "-o",
                out,
                "--to",
                to,
                "--state",
                "state.json",
                cwd=tmp_path,
            )
            assert done.code == 0, done.err
        (tmp_path / "test_config.json").write_text(json.dumps({"criteria": criteria}))
        done = evalgate("run", out, *agent, "-c", "test_config.json", cwd=tmp_path, PATH=os.environ["PATH"])
        assert done.code == 0, done.out + done.err
