"""Commands that are started for each turn."""

import pytest

from evalgate.agents.adapters.command import CommandAgentOptions
from evalgate.agents.workers.protocol import TOO_LARGE
from evalgate.core.protocols import Agent
from evalgate.core.types import CaseRun, CaseTurn, EvalCase, Failure, Reply, UserMessage
from tests.agents.http.server import build_context
from tests.agents.play import PATIENT_S, a_talk, outcomes


async def played(*command: str, case: EvalCase | None = None, seconds: float = PATIENT_S) -> CaseRun:
    def agent(env: dict[str, str]) -> Agent:
        options = CommandAgentOptions.model_validate({"command": command, "mode": "per_turn"})
        return options.build(build_context(env=env, timeout=seconds))

    return (await outcomes(agent, [case or a_talk("case", "hi")]))["case"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("cat",), "hi"),
        (("tr", "a-z", "A-Z"), "HI"),
        (("true",), ""),
        (("printf", r"a\n\n b\r\n\n"), "a\n\n b"),
        (("printf", r"\377"), "\ufffd"),
        (("sh", "-c", "echo to you; exec 1>&-; sleep 0.1"), "to you"),
    ],
)
async def test_the_output_is_the_answer(command: tuple[str, ...], answer: str) -> None:
    run = await played(*command)
    assert (run.failure, run.replies) == (None, (Reply(answer),))


async def test_turns_of_a_conversation_know_each_other() -> None:
    tell = 'printf "%s %s %s" "$EVALGATE_SESSION" "$EVALGATE_CASE" "$EVALGATE_TURN"'
    run = await played("sh", "-c", tell, case=a_talk("case", "one", "two"))
    first, second = (reply.response.split() for reply in run.replies if reply and reply.response)
    assert first[0] == second[0]
    assert (first[1:], second[1:]) == (["case", "1"], ["case", "2"])


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        (
            "echo broken >&2; exit 3",
            Failure("exited", "the agent's process ended with exit code 3 (turn 1)", "broken\n"),
        ),
        ("kill -9 $$", Failure("killed", "the agent's process was killed by signal SIGKILL (turn 1)")),
    ],
)
async def test_crashes(script: str, failure: Failure) -> None:
    run = await played("sh", "-c", script)
    assert (run.outcome, run.failure) == ("crashed", failure)


@pytest.mark.parametrize("script", ["sleep 60", "trap '' TERM; sleep 60 & sleep 60"])
async def test_a_turn_that_takes_too_long_ends_with_all_its_children(script: str) -> None:
    run = await played("sh", "-c", script, seconds=0.3)
    assert (run.outcome, run.failure) == ("timed_out", Failure("timeout", "no answer within 0.3 s (turn 1)"))


async def test_children_that_stay_behind_are_ended() -> None:
    run = await played("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo ok")
    assert run.replies == (Reply("ok"),)


async def test_a_flood_is_stopped() -> None:
    run = await played("sh", "-c", "cat /dev/zero")
    assert run.failure == Failure("flood", f"{TOO_LARGE} (turn 1)")


async def test_a_command_that_does_not_exist() -> None:
    run = await played("no-such-command-here")
    sentence = "cannot start the agent: there is no command `no-such-command-here`"
    assert (run.outcome, run.failure) == ("not_run", Failure("start", sentence))


async def test_attachments_have_no_place() -> None:
    case = EvalCase("case", (CaseTurn(UserMessage("see", ({"inline_data": {}},))),))
    run = await played("cat", case=case)
    assert run.outcome == "faulted"


async def test_a_large_message_to_a_command_that_does_not_read_it() -> None:
    run = await played("true", case=a_talk("case", "x" * 5_000_000))
    assert run.replies == (Reply(""),)
