"""What a worker can do to itself, and what becomes of the case in it, of its neighbours, and of its children."""

import asyncio
from pathlib import Path

import pytest

from evalgate.agents.adapters.python import build_python_agent
from evalgate.agents.workers.pool import WorkerPool
from evalgate.agents.workers.protocol import TOO_LARGE
from evalgate.core.types import CaseRun, Failure, Reply
from tests.agents.play import PATIENT_S, a_talk, command, outcomes

HERE = Path(__file__).parent


def harmful(
    name: str, env: dict[str, str], timeout: float = PATIENT_S, memory: str | None = None
) -> WorkerPool:
    return build_python_agent(
        entry=f"agents:{name}", cwd=HERE, env=env, timeout=timeout, threads=4, memory=memory
    )


async def played(
    name: str, *texts: str, seconds: float = PATIENT_S, memory: str | None = None
) -> dict[str, CaseRun]:
    """Fails when a process survives the agent."""
    cases = [a_talk(text, text) for text in texts]
    return await outcomes(lambda env: harmful(name, env, seconds, memory), cases)


@pytest.mark.parametrize("name", ["stops_itself", "holds_the_interpreter"])
async def test_a_process_that_stands_still_is_ended(name: str) -> None:
    run = (await played(name, "hi", seconds=0.3))["hi"]
    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("timed_out", "timeout")
    assert run.failure.message.endswith("the agent's process did not react and was ended")


async def test_a_process_that_is_killed_has_crashed() -> None:
    run = (await played("kills_itself", "hi"))["hi"]
    assert run.failure is not None
    sentence = "the agent's process was killed by signal SIGKILL while it answered (turn 1)"
    assert (run.outcome, run.failure.kind, run.failure.message) == ("crashed", "killed", sentence)


@pytest.mark.parametrize("name", ["eats_memory", "lets_a_child_eat"])
async def test_a_process_out_of_memory_says_so(name: str) -> None:
    run = (await played(name, "eat", memory="96m"))["eat"]
    assert run.failure is not None
    sentence = "the agent's process used more than 96 MiB of memory while it answered (turn 1)"
    assert (run.outcome, run.failure.kind, run.failure.message) == ("crashed", "out_of_memory", sentence)


async def test_only_the_case_that_eats_the_memory_is_blamed() -> None:
    runs = await played("eats_memory", "eat", "a", "b", "c", memory="96m")
    assert {name: run.outcome for name, run in runs.items()} == {
        "eat": "crashed",
        "a": "answered",
        "b": "answered",
        "c": "answered",
    }


async def test_a_child_that_left_the_process_group_is_ended() -> None:
    assert (await played("leaves_a_daemon", "hi"))["hi"].outcome == "answered"


async def test_zombies_are_no_problem() -> None:
    assert (await played("leaves_zombies", "hi"))["hi"].outcome == "answered"


async def test_closed_pipes_end_in_an_outcome() -> None:
    run = (await played("closes_its_pipes", "hi", seconds=1))["hi"]
    assert run.outcome in {"crashed", "timed_out"}


async def test_closed_stdin_is_the_agents_own_business() -> None:
    assert (await played("closes_stdin", "hi"))["hi"].replies == (Reply("hi"),)


async def test_a_flood_of_bytes_that_are_no_text_leaves_a_bounded_end() -> None:
    run = (await played("floods_with_nonsense", "hi"))["hi"]
    assert run.failure is not None
    assert run.failure.message == "the agent raised ValueError: hi"
    assert len(run.failure.detail) <= 16 * 1024
    run.failure.detail.encode()


async def test_a_pipe_that_is_full_loses_nothing() -> None:
    reply = (await played("fills_the_pipe", "hi"))["hi"].replies[0]
    assert reply is not None
    assert len(reply.events) == 2_000


CROWD = ("guilty", *(f"neighbour {number}" for number in range(1, 6)))


def undisturbed(runs: dict[str, CaseRun]) -> bool:
    """Whether every neighbour answered in its first attempt."""
    found = {name: (run.replies, run.earlier_attempts) for name, run in runs.items() if name != "guilty"}
    return found == {name: ((Reply(name),), ()) for name in CROWD if name != "guilty"}


@pytest.mark.parametrize(
    "name", ["forks_and_exits", "forks_and_exits_in_a_thread", "forks_and_answers", "forks_and_sleeps"]
)
async def test_a_forked_child_never_answers(name: str) -> None:
    runs = await played(name, *CROWD)
    assert runs["guilty"].replies == (Reply("guilty"),)
    assert undisturbed(runs)


async def test_cancelling_every_task_fails_the_guilty_case_alone() -> None:
    runs = await played("cancels_all", *CROWD)
    failure = runs["guilty"].failure
    assert failure is not None
    assert (runs["guilty"].outcome, failure.message) == ("crashed", "the agent raised CancelledError")
    assert {name: run.replies for name, run in runs.items() if name != "guilty"} == {
        name: (Reply(name),) for name in CROWD if name != "guilty"
    }


@pytest.mark.parametrize(
    "name", ["answers_too_much", "answers_too_much_at_last", "answers_with_a_call_that_is_too_large"]
)
async def test_an_answer_that_is_too_large_fails_its_case_alone(name: str) -> None:
    runs = await played(name, *CROWD)
    failure = runs["guilty"].failure
    assert failure is not None
    assert (runs["guilty"].outcome, failure.kind, failure.message) == ("crashed", "flood", TOO_LARGE)
    assert undisturbed(runs)


async def test_a_command_that_answers_too_much_fails_its_case_alone() -> None:
    script = (
        """read hello; echo '{"type":"ready","protocol":1}'; read a; read b; read c; read d; """
        """printf '{"type":"done","session":"1","response":"'; head -c 20000000 /dev/zero | tr '\\0' x; echo '"}'; """
        """echo '{"type":"done","session":"2","response":"to 2"}'; read cancel; """
        """echo '{"type":"cancelled","session":"1"}'; cat >/dev/null"""
    )
    cases = [a_talk(name, "hi") for name in ("guilty", "neighbour")]
    runs = await outcomes(lambda env: command("sh", "-c", script, env=env), cases)
    assert runs["guilty"].failure == Failure("flood", f"{TOO_LARGE} (turn 1)")
    assert (runs["neighbour"].replies, runs["neighbour"].earlier_attempts) == ((Reply("to 2"),), ())


GREETS = """read hello; echo '{"type":"ready","protocol":1}'; read start; read turn; """


@pytest.mark.parametrize(
    ("then", "outcome"),
    [
        ("""printf '{"type":"done","sess'""", "crashed"),
        ("""printf '{"type":"done","sess'; sleep 60""", "timed_out"),
        ("exec >&-; sleep 60", "timed_out"),
        ("exec <&-; exit 0", "crashed"),
    ],
    ids=["half a line", "half a line, then silence", "stdout closed", "stdin closed"],
)
async def test_a_command_that_breaks_off(then: str, outcome: str) -> None:
    runs = await outcomes(
        lambda env: command("sh", "-c", GREETS + then, env=env, timeout=1), [a_talk("case", "hi")]
    )
    assert runs["case"].outcome == outcome


async def test_answers_out_of_order_go_where_they_belong() -> None:
    """Three sessions, answered the other way round."""
    script = (
        """read hello; echo '{"type":"ready","protocol":1}'; """
        "for i in 1 2 3 4 5 6; do read line; done; "
        """for i in 3 2 1; do echo '{"type":"done","session":"'$i'","response":"to '$i'"}'; done; cat"""
    )
    cases = [a_talk(f"case {number}", "hi") for number in (1, 2, 3)]
    runs = await outcomes(lambda env: command("sh", "-c", script, env=env), cases)
    assert {name: run.replies for name, run in runs.items()} == {
        f"case {number}": (Reply(f"to {number}"),) for number in (1, 2, 3)
    }


async def test_many_at_once_on_one_asynchronous_worker(tmp_path: Path) -> None:
    """A thousand conversations that all wait for each other."""
    (tmp_path / "crowd.py").write_text(
        "import asyncio\nhere, full = [], asyncio.Event()\n"
        "async def answer(text):\n"
        "    here.append(text)\n"
        "    if len(here) == 1000:\n        full.set()\n"
        "    await full.wait()\n"
        "    return text\n"
    )
    cases = [a_talk(str(number), str(number)) for number in range(1_000)]

    def crowd(env: dict[str, str]) -> WorkerPool:
        return build_python_agent(
            entry="crowd.py:answer", cwd=tmp_path, env=env, timeout=PATIENT_S, threads=1_000
        )

    runs = await asyncio.wait_for(outcomes(crowd, cases, concurrency=1_000), 5 * PATIENT_S)
    assert {run.replies for run in runs.values()} == {(Reply(str(number)),) for number in range(1_000)}
