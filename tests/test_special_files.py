"""A pipe or a device in the place of any file that is read: refused with a sentence, never waited for."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from evalgate.__main__ import main
from evalgate.agents.http.connection import AgentServer, create_http_client
from evalgate.cli.agent_search import find_project_files
from evalgate.cli.shell_completion import complete_agent
from evalgate.core.errors import InvalidInputError
from evalgate.llm.caching import ResponseCache
from evalgate.system.files import SpecialFileError, read_file

EVAL_SET = """{"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [
    {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hi"}]}}]}]}"""
STORY = """{"eval_set_id": "t", "eval_cases": [{"eval_id": "c", "conversation_scenario":
    {"starting_prompt": "hi", "conversation_plan": "Say hi.", "user_persona": "shy"}}]}"""
METRICS = {"response_match_score": 0.5}
JUDGED = {"final_response_match_v2": {"threshold": 0.5}}
JUDGE = {"provider": "custom", "model": "m", "base_url": "http://localhost:9", "api_key": "${A_KEY}"}
COMPOSED = {"kind": "docker", "service": "app", "port": 80}
RUN = ["run"]
REPLAY = ["run", "one.evalset.json", "--agent", "replay:recorded"]
SPECIAL = {"/dev/zero": "a device", "pipe": "a pipe"}


@pytest.fixture(autouse=True)
def never_waits() -> Iterator[None]:
    """Fail instead of hanging: what is tested here would block in a system call."""

    def fail(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError("it waited for a pipe, or read a device that never ends")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_KEY", "none")
    (tmp_path / "one.evalset.json").write_text(EVAL_SET)
    (tmp_path / "told.json").write_text(STORY)
    (tmp_path / "agent.py").write_text("def answer(text): return text\n")
    return tmp_path


def put(place: Path, special: str) -> None:
    """Make a pipe at a path, or a link to a device."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if special == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(special)


PLACES: list[tuple[str, dict[str, object] | None, list[str]]] = [
    # where the special file stands, what the thresholds file says beside the defaults, the command
    ("two.evalset.json", {"eval_sets": ["two.evalset.json"]}, RUN),
    ("two.evalset.json", {"eval_sets": ["*.evalset.json"]}, RUN),
    ("two.evalset.json", {"eval_sets": ["two.evalset.json:c"]}, RUN),
    ("sets/two.evalset.json", {"eval_sets": ["sets"]}, RUN),
    ("sets/test.test.json", {}, ["validate", "sets"]),
    ("evalgate.yaml", None, ["run", "one.evalset.json", "--agent", "python:agent.py:answer"]),
    ("evalgate.toml", None, ["validate", "one.evalset.json"]),
    ("evalgate.json", None, ["baseline", "show"]),
    ("test_config.json", None, ["validate", "one.evalset.json", "--thresholds", "test_config.json"]),
    ("recorded/a.session.json", {}, REPLAY),
    ("recorded/a.messages.json", {}, REPLAY),
    ("recorded/messages/a.messages.json", {}, REPLAY),
    ("recorded", {}, REPLAY),
    ("compose.yaml", {"agent": COMPOSED}, RUN),
    ("own.yaml", {"agent": {**COMPOSED, "compose": "own.yaml"}}, RUN),
    (".env", {"agent": COMPOSED}, RUN),
    ("more.env", {"agent": COMPOSED}, RUN),
    ("quarantine.yaml", {"gate": {"quarantine": "quarantine.yaml"}}, RUN),
    ("anchors.json", {"criteria": JUDGED, "judge": {**JUDGE, "anchors": "anchors.json"}}, RUN),
    ("own.j2", {"criteria": {"final_response_match_v2": {"threshold": 0.5, "prompt": "own.j2"}}}, RUN),
    ("personas.yaml", {"user": {"personas": "personas.yaml"}, "eval_sets": ["told.json"]}, RUN),
    ("baseline.json", {"gate": {"baseline": "baseline.json"}}, RUN),
    (".evalgate/baseline.json", {}, ["baseline", "show"]),
    ("shards/results.json", {}, ["merge", "shards"]),
    ("a/results.json", {}, ["merge", "*/results.json"]),
    ("old/results.json", {}, ["report", "old/results.json"]),
    ("evalgate-report/journal.jsonl", {}, RUN),
    ("evalgate-report/journal.jsonl", {}, ["run", "--resume"]),
    ("traces.json", {}, ["import", "traces.json"]),
    ("one.cases.yaml", {}, RUN),
    ("one.cases.yaml", {}, ["review", "one.evalset.json"]),
    ("cases.csv", {}, ["generate", "--from", "cases.csv", "--to", "adk", "-o", "new.evalset.json"]),
]


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize(("place", "rules", "command"), PLACES)
def test_a_pipe_or_a_device_is_refused_wherever_a_file_is_read(
    place: str,
    rules: dict[str, object] | None,
    command: list[str],
    special: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if rules is not None:
        given = {
            "agent": {"entry": "agent.py:answer"},
            "criteria": METRICS,
            "eval_sets": ["one.evalset.json"],
        }
        (project / "evalgate.yaml").write_text(json.dumps({"judge": JUDGE, **given, **rules}))
    if place in {".env", "more.env"}:
        more = "    env_file: [{path: more.env, required: false}]\n" if place == "more.env" else ""
        (project / "compose.yaml").write_text(f"services:\n  app:\n    image: x\n{more}")
    put(project / place, special)

    code = main(command)

    said = capsys.readouterr().err
    assert code == 2, said
    assert f"is {SPECIAL[special]}: only files are read" in said
    assert Path(place).name in said


OPTIONS = ["one.evalset.json", "--agent", "python:agent.py:answer"]
NO_FILES = {
    "nowhere": "is a link that leads nowhere: restore the file that it names, or remove the link",
    "loop": "cannot be read: Too many levels of symbolic links",
    "folder": "is a folder, and has to be a file: move the folder, or name another file",
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("evalgate.yaml", ["run", *OPTIONS]),
        ("evalgate.json", ["run", *OPTIONS]),
        ("evalgate.yml", ["validate", "one.evalset.json"]),
        (".evalgate/baseline.json", ["run", *OPTIONS]),
        (".evalgate/baseline.json", ["baseline", "show"]),
        ("own.json", ["run", *OPTIONS, "--baseline", "own.json"]),
    ],
)
def test_thresholds_or_a_baseline_that_are_no_file_do_not_count_as_missing(
    place: str, command: list[str], kind: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / place).parent.mkdir(exist_ok=True)
    if kind == "folder":
        (project / place).mkdir()
    else:
        (project / place).symlink_to("nowhere" if kind == "nowhere" else Path(place).name)

    code = main(command)

    said = capsys.readouterr().err
    assert (code, NO_FILES[kind] in said, place in said) == (2, True, True), said
    assert str(project) not in said


@pytest.mark.parametrize("kind", ["nowhere", "folder"])
def test_a_pyproject_that_is_no_file_does_not_stop_the_search_above(
    kind: str, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git").mkdir()
    (project / "evalgate.yaml").write_text(json.dumps({"criteria": METRICS}))
    (project / "sub").mkdir()
    place = project / "sub/pyproject.toml"
    place.mkdir() if kind == "folder" else place.symlink_to(kind)
    monkeypatch.chdir(project / "sub")

    code = main(["validate", "../one.evalset.json"])

    said = capsys.readouterr().err
    assert (code, "which contains evalgate.yaml" in said) == (0, True), said


@pytest.mark.parametrize("special", SPECIAL)
def test_what_only_looks_around_passes_over_it(special: str, project: Path) -> None:
    put(project / "tool.py", special)
    put(project / "app" / "agent.py", special)
    put(project / "app" / "__init__.py", special)
    put(project / "langgraph.json", special)

    assert complete_agent("python:tool.py:") == []
    assert find_project_files(project).agents == ()


@pytest.mark.parametrize("special", SPECIAL)
def test_a_file_of_ignored_paths_is_kept_as_it_is(special: str, project: Path) -> None:
    put(project / ".gitignore", special)

    assert main(["init"]) == 0
    assert not (project / ".gitignore").is_file()


@pytest.mark.parametrize("special", SPECIAL)
def test_the_cache_of_a_judge_is_not_made_of_it(special: str, project: Path) -> None:
    put(project / "cache", special)

    with ResponseCache(project / "cache", writes=True, wall=lambda: 0.0) as file:
        assert file.get("key") is None

    assert SPECIAL[special] in file.notices[0]
    assert not (project / "cache").is_file()
    assert not list(project.glob("cache.*"))


@pytest.mark.parametrize("special", SPECIAL)
def test_certificates_are_not_read_from_it(special: str, project: Path) -> None:
    pytest.importorskip("aiohttp")
    put(project / "ca.pem", special)

    with pytest.raises(InvalidInputError, match=rf"cannot read certificates.*is {SPECIAL[special]}"):
        create_http_client(AgentServer("https://localhost", ca_file=project / "ca.pem"), keepalive=True)


def test_a_file_that_becomes_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    looked = (tmp_path / "file").stat()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(Path, "stat", lambda _, **__: looked)  # as it was before somebody replaced it

    with pytest.raises(SpecialFileError, match="is a pipe"):
        read_file(tmp_path / "pipe")
