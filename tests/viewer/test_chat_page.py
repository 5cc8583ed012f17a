"""A person talks with an agent in the page, stops a turn, and saves a case."""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from evalgate.core.errors import InvalidInputError
from evalgate.datasets.eval_set_file import open_eval_set
from evalgate.viewer import background_chat
from evalgate.viewer.state import Viewer
from tests.viewer.serving import create_viewer, open_client, serve_viewer
from tests.viewer.test_run_pages import look_at

if TYPE_CHECKING:
    from playwright.sync_api import Page

AGENT = """
import os
import time

def answer(text, session):
    session.tool_call("look", {"text": text})
    if text == "wait":
        time.sleep(600)
    if text == "crash" or (text == "buy" and os.path.exists("sold-out")):
        raise RuntimeError("out of order")
    return f"<b>You said</b> {text}"
"""


def write_project(folder: Path) -> Path:
    (folder / "agent.py").write_text(AGENT)
    (folder / "evalgate.yaml").write_text("agent: {entry: 'agent.py:answer'}\n")
    (folder / "desk").mkdir()
    (folder / "desk/agent.py").write_text("root_agent = None\n")
    return folder


def post(client: TestClient, viewer: Viewer, action: str, **fields: str) -> str:
    data = {"csrf": viewer.access.csrf_token, "action": action, **fields}
    answer = client.post("/chat", data=data)
    return answer.text if answer.status_code != 303 else wait_for(client, 'data-over="yes"')


def wait_for(client: TestClient, text: str) -> str:
    for _ in range(600):
        if text in (shown := client.get("/chat").text):
            return shown
        time.sleep(0.1)
    raise AssertionError(shown)


def test_without_a_thresholds_file_an_agent_of_google_adk_is_chosen(tmp_path: Path) -> None:
    write_project(tmp_path)
    with open_client(create_viewer(tmp_path)) as client:
        shown = client.get("/chat").text
        assert re.findall(r'<option value="(.*?)"', shown)[:2] == ["", "desk"]
    (tmp_path / "evalgate.yaml").unlink()
    viewer = create_viewer(tmp_path)
    with open_client(viewer) as client:
        assert '<option value="desk" selected>adk:desk' in client.get("/chat").text
        assert "the agent of the thresholds file" not in client.get("/chat").text
        assert "no agent: name one" not in post(client, viewer, "send", text="hello")


def test_a_conversation_is_had_stopped_and_saved(tmp_path: Path) -> None:
    viewer = create_viewer(write_project(tmp_path))
    with open_client(viewer) as client:
        assert "adk:desk" in client.get("/chat").text
        assert "&lt;b&gt;You said&lt;/b&gt; hello" in post(client, viewer, "send", text="hello")
        data = {"csrf": viewer.access.csrf_token, "action": "send", "text": "wait"}
        assert client.post("/chat", data=data).status_code == 303
        assert "The agent works." in wait_for(client, "The agent works.")
        assert "works on a message" in post(client, viewer, "send", text="no")
        assert "the turn was stopped" in post(client, viewer, "stop")
        crashed = post(client, viewer, "send", text="crash")
        assert "RuntimeError: out of order" in crashed
        assert 'href="/chat/trace?turn=failed&amp;span=1"' in crashed.replace("&span", "&amp;span")
        step = client.get("/chat/trace?turn=failed&span=1&panel=request").text
        assert "Trace of the turn without a reply" in step
        assert "crash" in step
        assert "earlier messages again first" in client.get("/chat").text
        for out in ("../a.json", "/tmp/a.json", "agent.py", "a\0.json"):
            answer = post(client, viewer, "save", out=out, turn="0")
            assert "name a .json file in the project" in answer or "is no path" in answer
        refused = post(client, viewer, "save", out="evals/b.json", to="trpc", id="kept")
        assert "no turn is ticked" in refused
        assert 'value="kept"' in refused
        assert "checked" not in refused
        assert "Saved in evals/a.json as trpc." in post(
            client, viewer, "save", out="evals/a.json", to="trpc", id="mine", turn="0"
        )
        assert "there is no agent" in post(client, viewer, "new", agent="os")
        assert "Write a message to begin." in post(client, viewer, "new", agent="")
        assert "there is nothing to save yet" in post(client, viewer, "save", out="evals/a.json")

    (case,) = open_eval_set(tmp_path / "evals/a.json", "a.json").eval_set.cases
    assert case.eval_id == "mine"
    assert [turn.user.text for turn in case.turns] == ["hello"]


def test_an_agent_that_does_not_stop_is_told_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: background_chat.BackgroundChat) -> None:
        await asyncio.sleep(2)

    viewer = create_viewer(write_project(tmp_path))
    with open_client(viewer) as client:
        post(client, viewer, "send", text="hello")
        with monkeypatch.context() as patched:
            patched.setattr(background_chat, "_END_S", 0.1)
            patched.setattr(background_chat.BackgroundChat, "_stop_turn", hang)
            for action in ("stop", "new"):
                assert "the agent did not stop within 0 s" in post(client, viewer, action, agent="")


def test_a_double_click_on_the_first_message_starts_one_agent(tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    (folder / "agent.py").write_text(f"open('started', 'a').write('x')\n{AGENT}")
    chat = background_chat.BackgroundChat(folder, None)

    def send(_: int) -> str:
        try:
            chat.send("wait")
        except InvalidInputError as error:
            return str(error)
        return ""

    try:
        with ThreadPoolExecutor(2) as pool:
            answers = sorted(pool.map(send, range(2)))
        assert answers == ["", "the agent works on a message: wait for its reply, or stop it first"]
        while not chat.get_state().events:
            time.sleep(0.05)
        assert (folder / "started").read_text() == "x"
    finally:
        chat.close()


def test_turns_are_kept_if_one_that_is_sent_again_has_no_reply(tmp_path: Path) -> None:
    viewer = create_viewer(write_project(tmp_path))
    with open_client(viewer) as client:
        for text in ("hello", "buy", "crash"):
            post(client, viewer, "send", text=text)
        (tmp_path / "sold-out").touch()
        failed = post(client, viewer, "send", text="thanks")
        assert "your earlier message 2, sent again, got none: the agent raised RuntimeError" in failed
        assert "You said&lt;/b&gt; buy" in failed
        assert "thanks</textarea>" in failed
        (tmp_path / "sold-out").unlink()
        again = post(client, viewer, "send", text="thanks")
        assert again.count("You said&lt;/b&gt;") == 3


def test_the_page_in_a_browser(page: "Page", tmp_path: Path) -> None:
    with serve_viewer(write_project(tmp_path)) as address:
        page.goto(address)
        page.get_by_role("link", name="Chat", exact=True).click()
        page.get_by_label("Message").fill("one\ntwo")
        page.get_by_role("button", name="Send").press("Enter")
        page.get_by_role("heading", name="Save as a case").wait_for()
        assert "You said</b> one\ntwo" in (page.locator("main").text_content() or "")
        page.get_by_label("Message").fill("three")
        page.get_by_role("button", name="Send").press("Enter")
        page.get_by_label("save turn 2").wait_for()
        assert page.locator(".turn-trace summary").filter(has_text="in 1 call").count() == 2
        look_at(page, "chat")
        page.locator(".turn-trace").last.get_by_role("link", name="look").click()
        page.get_by_role("heading", name="Trace of turn 2").wait_for()
        assert "look" in page.locator(".event.current").inner_text()
        page.get_by_role("link", name="Request").click()
        assert '"three"' in page.locator(".trace-step").inner_text()
        look_at(page, "chat-trace")
        page.get_by_role("link", name="Chat", exact=True).last.click()
        page.get_by_label("save turn 1").uncheck()
        page.get_by_role("button", name="Save").press("Enter")
        page.get_by_text("Saved in evals/chat.evalset.json").wait_for()
    (case,) = open_eval_set(tmp_path / "evals/chat.evalset.json", "x").eval_set.cases
    assert [turn.user.text for turn in case.turns] == ["three"]
