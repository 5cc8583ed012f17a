"""Canaries in the environment, in files and in judge keys: no file that a run leaves behind holds one."""

import base64
import json
from urllib.parse import quote

import pytest

from tests.llm.test_whole_runs import KEY, MATCH, evalgate, project
from tests.openai_server import Body, Completion, OpenAIServer, Reply

OF_ENVIRONMENT = 'blue-monkey/4711+"tango"&x'
PASSWORD = "pa55/w0rd+of-the-db"
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
DISCORD = "webhooks/123456789012345678/" + "a1B2c3D4e5F6g7H8i9J0" * 3 + "k1L2m3N4"
KEY_ID = "0123456789abcdef" * 2 + "01234567"
PEM_LINE = "MIIEowIBAAKCAQEA7bq2abcdEFGHxyz0"
ACCOUNT = {
    "type": "service_account",
    "private_key_id": KEY_ID,
    "private_key": f"-----BEGIN PRIVATE KEY-----\n{PEM_LINE}\n{PEM_LINE[::-1]}\n-----END PRIVATE KEY-----\n",
}
FILE = json.dumps({"account": ACCOUNT, "hook": f"https://discord.com/api/{DISCORD}", "token": TOKEN})
CANARIES = (OF_ENVIRONMENT, PASSWORD, TOKEN, DISCORD, KEY_ID, PEM_LINE, KEY)

AGENT = """\
import base64, json, os, sys
from urllib.parse import quote

def answer(text, session):
    file = open("account.txt").read()
    said = [os.environ["AGENT_TOKEN"], os.environ["AGENT_DB_URL"], file]
    told = "\\n".join(
        spell for each in said
        for spell in (each, json.dumps(each), base64.b64encode(each.encode()).decode(), quote(each, safe=""))
    )
    print(told)
    print(told, file=sys.stderr)
    session.tool_call("fetch", {"url": told})
    session.tool_result("fetch", {"body": told})
    if text == "milk":
        raise ValueError(told)
    return text.upper() + told
"""


def judging(body: Body) -> Reply:
    told = f"{KEY} {base64.b64encode(KEY.encode()).decode()} {quote(KEY)} {json.dumps(KEY)} {TOKEN}"
    return Completion(json.dumps({"reasoning": told, "is_the_agent_response_valid": "valid"}))


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """File or stream → all that commands wrote to it."""
    folder = tmp_path_factory.mktemp("project")
    secrets = {
        "AGENT_TOKEN": OF_ENVIRONMENT,
        "AGENT_DB_URL": f"postgres://me:{quote(PASSWORD, safe='')}@db/x",
    }
    streams: dict[str, str] = {}
    with OpenAIServer(script=judging, key=KEY) as server:
        agent = {"entry": "agent.py:answer", "env": [*secrets]}
        project(folder, server.url, {**MATCH, "response_match_score": 0.1}, agent=agent)
        (folder / "agent.py").write_text(AGENT)
        (folder / "account.txt").write_text(FILE)
        inputs = {path.name for path in folder.iterdir()}
        files = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "GITHUB_OUTPUT": str(folder / "out.txt")}
        reason = f"told by {OF_ENVIRONMENT} and {TOKEN}"
        for words in (
            ("run", "--html"),
            ("baseline", "save", "--allow-failing", "--to", "b.json"),
            ("baseline", "accept", "--reason", reason, "--to", "accepted.json"),
            ("report", "--out", "again"),
        ):
            done = evalgate(folder, *words, GITHUB_ACTIONS="true", **files, **secrets)
            assert done.code in {0, 1, 3}, done.err
            streams[f"log of {' '.join(words[:2])}"] = done.out + done.err
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name not in inputs)
    return streams | {
        str(path.relative_to(folder)): path.read_bytes().decode("utf-8", "replace")
        for path in kept
        if path.suffix != ".pyc"
    }


def spell(canary: str) -> set[str]:
    """As it is, in base64 at each place, in URLs, in JSON, and in JSON in JSON."""
    escaped = json.dumps(canary)[1:-1]
    encoded = {
        base64.b64encode(b"\0" * before + canary.encode()).decode()[4 if before else 0 : -4]
        for before in range(3)
    }
    return {canary, escaped, json.dumps(escaped)[1:-1], quote(canary, safe=""), quote(canary), *encoded}


def test_every_kind_of_file_is_looked_at(left_behind: dict[str, str]) -> None:
    names = {"results.json", "junit.xml", "comment.md", "gl-code-quality-report.json", "report.html"}
    expected = {f"evalgate-report/{name}" for name in names} | {"b.json", "accepted.json", "summary.md"}
    assert expected <= left_behind.keys()
    assert any("cache" in name for name in left_behind), sorted(left_behind)
    assert "***" in left_behind["evalgate-report/results.json"]
    assert "told by *** and ***" in left_behind["accepted.json"]


@pytest.mark.parametrize("canary", CANARIES)
def test_no_canary_is_left(left_behind: dict[str, str], canary: str) -> None:
    found = {(name, form) for name, text in left_behind.items() for form in spell(canary) if form in text}
    assert found == set()
