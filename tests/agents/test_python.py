"""Python agents: what they may be, and how they fail."""

import asyncio
import sys
from pathlib import Path

import pytest

from evalgate.agents.workers.pool import WorkerPool
from evalgate.core.types import (
    CaseRun,
    Failure,
    JsonObject,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    Usage,
)
from tests.agents.play import PATIENT_S, TINY, a_talk, outcomes, tiny, until


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("sync_function", Reply("HI")),
        ("async_function", Reply("HI")),
        ("sync_returning_awaitable", Reply("HI")),
        (
            "sync_generator",
            Reply("hi!", (ToolCall("look", {"at": "hi"}), Message("thinking", "me"))),
        ),
        ("async_generator", Reply("HI", (ToolCall("look", {"at": "hi"}),))),
        (
            "rich_answer",
            Reply("seen", (ToolCall("look", {"at": "hi"}, "7"), ToolResult("look", [1, None], "7"))),
        ),
        (
            "reports_everything",
            Reply(
                "there",
                (
                    Message("one moment"),
                    ToolCall("look", {"nan": "NaN", "odd": [3], "surrogate": "�"}),
                ),
            ),
        ),
        ("WithInvoke", Reply("invoked hi")),
        ("WithAsyncInvoke", Reply("ainvoked hi None")),
        ("WithRun", Reply("ran case hi")),
        ("Callable", Reply("called hi")),
        ("instance", Reply("invoked hi")),
        ("instance.invoke", Reply("invoked hi")),
        ("partial", Reply("partly hi")),
        ("prints", Reply("hi ''")),
        ("floods_stderr", Reply("hi")),
        ("starts_children", Reply("hi")),
    ],
)
async def test_answers(name: str, reply: Reply) -> None:
    runs = await outcomes(lambda env: tiny(name, env=env), [a_talk("case", "hi")])
    assert (runs["case"].outcome, runs["case"].replies) == ("answered", (reply,))


@pytest.mark.parametrize(
    ("name", "usage", "state"),
    [
        ("async_function", None, {"unit": "C"}),
        ("rich_answer", Usage(3, 0, None), {"unit": "C", "seen": "hi"}),
        ("async_generator", Usage(2, 1, None), {"unit": "C"}),
        ("reports_everything", Usage(6, 6, None, known_usd=0.25), {"unit": "C"}),
    ],
)
async def test_usage_and_final_state(name: str, usage: Usage | None, state: JsonObject) -> None:
    case = a_talk("case", "hi", session=SessionInput(state={"unit": "C"}))
    runs = await outcomes(lambda env: tiny(name, env=env), [case])
    assert (runs["case"].usage, runs["case"].final_state) == (usage, state)


async def test_turns_of_one_case_share_a_session_and_cases_do_not() -> None:
    given = SessionInput("app", "ada", {"count": 5})
    cases = [a_talk("one", "a", "b", session=given), a_talk("two", "c")]
    runs = await outcomes(lambda env: tiny("counts", env=env), cases)
    assert runs["one"].replies == (
        Reply("one ada 0 a", (ToolCall("count", {"to": 6}), ToolResult("count", 6))),
        Reply("one ada 2 b", (ToolCall("count", {"to": 7}), ToolResult("count", 7))),
    )
    assert runs["one"].final_state == {"count": 7}
    assert runs["two"].replies == (Reply("two  0 c", (ToolCall("count", {"to": 1}), ToolResult("count", 1))),)


STUBBORN = "no answer within 0.3 s (turn 1); the agent's process did not react and was ended"


@pytest.mark.parametrize(
    ("name", "outcome", "kind", "sentence"),
    [
        ("raises", "crashed", "exception", "the agent raised ValueError: no such order"),
        ("exits", "crashed", "exited", "the agent called sys.exit(3)"),
        (
            "is_rate_limited",
            "faulted",
            "rate_limited",
            "a service limits how often the agent may ask: TooManyRequests: slow down",
        ),
        ("exits_in_task", "crashed", "exited", "the agent called sys.exit(4)"),
        ("exits_in_a_lost_task", "crashed", "exited", "the agent called sys.exit(5)"),
        (
            "dies",
            "crashed",
            "exited",
            "the agent's process ended with exit code 0 while it answered (turn 1)",
        ),
        (
            "segfaults",
            "crashed",
            "killed",
            "the agent's process was killed by signal SIGSEGV while it answered (turn 1)",
        ),
        ("hangs", "timed_out", "timeout", "no answer within 0.3 s (turn 1)"),
        ("hangs_stubbornly", "timed_out", "timeout", "no answer within 0.3 s (turn 1)"),
        ("hangs_in_thread", "timed_out", "timeout", "no answer within 0.3 s (turn 1)"),
        ("blocks_loop", "timed_out", "timeout", STUBBORN),
        (
            "returns_number",
            "crashed",
            "protocol",
            'the agent returned a value of type int; expected a str or a dict {"response": str, …}',
        ),
        (
            "returns_nothing",
            "crashed",
            "protocol",
            'the agent returned None; expected a str or a dict {"response": str, …}',
        ),
        (
            "unknown_key",
            "crashed",
            "protocol",
            (
                "the dict that the agent returned has the unknown key 'respnse'; "
                "known are response, tool_calls, state, usage"
            ),
        ),
        (
            "wrong_arguments",
            "crashed",
            "protocol",
            "the agent's `tool_call` cannot be used: `args` must be of type dict, not str",
        ),
        (
            "state_of_keys",
            "crashed",
            "protocol",
            (
                "the agent's state cannot be written as JSON: "
                "keys must be str, int, float, bool or None, not tuple"
            ),
        ),
        (
            "nests",
            "crashed",
            "protocol",
            "the agent sent a value that nests deeper than 100 levels (turn 1)",
        ),
    ],
)
async def test_fails(
    name: str, outcome: str, kind: str, sentence: str, request: pytest.FixtureRequest
) -> None:
    if name != "blocks_loop":
        request.getfixturevalue("patient")
    timeout = 0.3 if outcome == "timed_out" else PATIENT_S
    runs = await outcomes(lambda env: tiny(name, env=env, timeout=timeout), [a_talk("case", "hi")])
    run, failure = runs["case"], runs["case"].failure
    assert failure is not None
    assert (run.outcome, failure.kind, failure.message) == (outcome, kind, sentence)
    assert (run.replies, run.earlier_attempts) == ((), ())


async def test_a_turn_that_ends_soon_after_an_exit_of_a_task_counts() -> None:
    runs = await outcomes(lambda env: tiny("outlives_a_lost_task", env=env), [a_talk("case", "hi")])
    assert runs["case"].replies == (Reply("hi True"),)


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("raises", "ValueError: no such order"),
        ("dies", "last words"),
        ("segfaults", "Fatal Python error: Segmentation fault"),
    ],
)
async def test_failure_carries_what_explains_it(name: str, detail: str) -> None:
    runs = await outcomes(lambda env: tiny(name, env=env), [a_talk("case", "hi")])
    failure = runs["case"].failure
    assert failure is not None
    assert detail in failure.detail
    assert "_evalgate_worker" not in failure.detail.split("Segmentation")[0]


async def test_answered_turns_of_a_failed_case_are_kept() -> None:
    runs = await outcomes(
        lambda env: tiny("answers_then_raises", env=env), [a_talk("case", "one", "two", "three")]
    )
    run = runs["case"]
    assert (run.outcome, run.replies) == ("crashed", (Reply("one"),))
    assert run.failure is not None
    assert run.failure.message == "the agent raised ValueError: two"


LOAD = "cannot load the agent"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            "missing.agents:run",
            (
                f"{LOAD} `missing.agents:run`: there is no module `missing` in {{cwd}} "
                f"or on the path of {sys.executable}"
            ),
        ),
        ("missing.py:run", f"{LOAD} `missing.py:run`: there is no file missing.py in {{cwd}}"),
        (
            "plain.py:rum",
            f"{LOAD} `plain.py:rum`: module `plain.py` has no attribute `rum`; it has: run, Needy, number, three",
        ),
        ("plain:run.x", f"{LOAD} `plain:run.x`: `function` has no attribute `x`; it has: nothing"),
        (
            "imports.py:run",
            (
                f"{LOAD} `imports.py:run`: ModuleNotFoundError: No module named 'not_there' "
                f"(is it installed for {sys.executable}?)"
            ),
        ),
        ("syntax.py:run", f"{LOAD} `syntax.py:run`: {{cwd}}/syntax.py:2: SyntaxError: invalid syntax"),
        ("leaves.py:run", f"{LOAD} `leaves.py:run`: importing it called sys.exit('bye')"),
        ("raising.py:run", f"{LOAD} `raising.py:run`: importing it raised KeyError: 'API_KEY'"),
        (
            "plain.py:number",
            (
                f"{LOAD} `plain.py:number`: it is a value of type int; expected a function (text) or (text, session), "
                "or an object with a method ainvoke, invoke, arun or run"
            ),
        ),
        (
            "plain.py:three",
            f"{LOAD} `plain.py:three`: `three(a, b, c)` cannot be asked; it must accept (text) or (text, session)",
        ),
        (
            "plain.py:Needy",
            (
                f"{LOAD} `plain.py:Needy`: class `Needy` cannot be made without `model`; "
                "name a function without parameters that makes one"
            ),
        ),
        (":run", f"{LOAD} `:run`: write it as `package.module:attribute` or `path/file.py:attribute`"),
    ],
)
async def test_agent_that_cannot_be_loaded_runs_no_case(tmp_path: Path, entry: str, sentence: str) -> None:
    files = {
        "plain.py": "import os\nnumber = 3\ndef run(text): return text\ndef three(a, b, c): return a\n"
        "class Needy:\n    def __init__(self, model): ...\n",
        "imports.py": "import not_there\n",
        "syntax.py": "x = 1\nx = = 2\n",
        "leaves.py": "import sys\nsys.exit('bye')\n",
        "raising.py": "import os\nos.environ['API_KEY']\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    runs = await outcomes(
        lambda env: tiny(entry, env=env, cwd=tmp_path), [a_talk(f"case{n}", "hi") for n in range(3)]
    )
    for run in runs.values():
        assert run.failure is not None
        is_missing = any(each in sentence for each in ("there is no ", "has no attribute", "write it as"))
        assert (run.outcome, run.failure.kind) == ("not_run", "entry" if is_missing else "import")
        assert run.failure.message == sentence.format(cwd=tmp_path)
    assert len(runs) == 3


ICONV = "save the file as UTF-8, in the editor or with `iconv -f {} -t UTF-8`"
PLAIN = "def run(text): return text\n"


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("agent.py", PLAIN.encode("utf-16"), f"agent.py: this is UTF-16: {ICONV.format('UTF-16')}"),
        ("agent.py", PLAIN.encode("utf-16-le"), f"agent.py: this is UTF-16LE: {ICONV.format('UTF-16LE')}"),
        ("agent.py", PLAIN.encode("utf-16-be"), f"agent.py: this is UTF-16BE: {ICONV.format('UTF-16BE')}"),
        ("agent.py", PLAIN.encode("utf-32"), f"agent.py: this is UTF-32: {ICONV.format('UTF-32')}"),
        ("pkg/agent.py", PLAIN.encode("utf-16"), f"pkg/agent.py: this is UTF-16: {ICONV.format('UTF-16')}"),
        ("agent.py", PLAIN.encode() + b"x = '\0'\n", "agent.py: this is no text: it holds null bytes"),
        ("agent.py", b"x = '\xe9'\n", "agent.py:1: this is not UTF-8: save the file as UTF-8"),
        ("tools.py", b"\xff\xfex\0", "main.py:1 imports a file that is no text in UTF-8, as one in UTF-16: save it as UTF-8"),
    ],
)  # fmt: skip
async def test_a_source_file_in_another_encoding_is_a_wrong_entry(
    tmp_path: Path, name: str, data: bytes, sentence: str
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    (tmp_path / "main.py").write_text(f"import tools\n{PLAIN}")
    (tmp_path / name).write_bytes(data)
    entry = f"{'main.py' if name == 'tools.py' else name}:run"
    runs = await outcomes(lambda env: tiny(entry, env=env, cwd=tmp_path), [a_talk("case", "hi")])
    failure = runs["case"].failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("entry", f"{LOAD} `{entry}`: {sentence}")


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ("shop/bot/agent.py:run", "from .tools import name\nfrom shop.bot import agent\n"),
        ("shop.bot.agent:run", "from .tools import name\n"),
        ("scripts/json.py:run", "from helper import name\n"),
    ],
)
async def test_entries_import_as_python_would(tmp_path: Path, entry: str, source: str) -> None:
    package = tmp_path / "shop" / "bot"
    package.mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "tools.py").write_text("name = 'tools'\n")
    (tmp_path / "scripts" / "helper.py").write_text("name = 'tools'\n")
    text = source + "def run(text):\n    return name\n"
    (package / "agent.py").write_text(text)
    (tmp_path / "scripts" / "json.py").write_text(text)
    runs = await outcomes(lambda env: tiny(entry, env=env, cwd=tmp_path), [a_talk("case", "hi")])
    assert runs["case"].replies == (Reply("tools"),)


@pytest.mark.parametrize("module", ["session", "channel", "threads", "answers", "program", "hosts"])
async def test_no_module_of_the_host_shadows_one_of_the_agent(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("def run(text):\n    return 'mine'\n")
    (tmp_path / "agent.py").write_text(f"from {module} import run\n")
    runs = await outcomes(lambda env: tiny("agent:run", env=env, cwd=tmp_path), [a_talk("case", "hi")])
    assert runs["case"].replies == (Reply("mine"),)


@pytest.mark.parametrize(
    ("python", "kind", "sentence"),
    [
        ("/no/python", "entry", "cannot start the agent: there is no command `/no/python`"),
        ("/etc/passwd", "start", "cannot start the agent: `/etc/passwd` may not be executed"),
        ("/bin/false", "exited", "the agent's process ended with exit code 1 before it was ready"),
    ],
)
async def test_interpreter_that_does_not_start(python: str, kind: str, sentence: str) -> None:
    runs = await outcomes(
        lambda env: tiny("sync_function", env=env, python=python), [a_talk("a", "hi"), a_talk("b", "hi")]
    )
    assert [(run.outcome, run.failure) for run in runs.values()] == [("not_run", Failure(kind, sentence))] * 2


async def test_missing_folder_is_named() -> None:
    folder = TINY / "nowhere"
    runs = await outcomes(lambda env: tiny("a:b", env=env, cwd=folder), [a_talk("case", "hi")])
    assert runs["case"].failure == Failure("entry", f"cannot start the agent: there is no folder {folder}")


async def test_slow_start_is_given_up(tmp_path: Path) -> None:
    """Half a second later by our own clock: until then it has told what it does."""
    (tmp_path / "agent.py").write_text("import time\nprint('loading')\ntime.sleep(600)\n")
    pools: list[WorkerPool] = []

    def agent(env: dict[str, str]) -> WorkerPool:
        pools.append(tiny("agent:run", env=env, cwd=tmp_path))
        return pools[0]

    def is_told() -> bool:
        return any(each.process.get_stderr_tail() for pool in pools for each in pool._workers)

    playing = asyncio.create_task(outcomes(agent, [a_talk("case", "hi")]))
    await until(is_told)
    (starting,) = pools[0]._workers
    starting._fail_slow_start(0.5)
    assert (await playing)["case"] == CaseRun(
        1,
        "not_run",
        failure=Failure("start", "the agent did not start within 0.5 s", "loading\n"),
    )
