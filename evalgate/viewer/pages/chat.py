"""Talk with an agent in the page, and save the conversation as a case."""

import json
from collections.abc import Mapping
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import ToolCall, ToolResult
from evalgate.runner.case_files import DEFAULT_OUT
from evalgate.runner.chat import ChatTurn, choose_case_id
from evalgate.viewer.forms import read_form
from evalgate.viewer.page_chat import PROJECT_AGENT, PageChat, list_adk_agents
from evalgate.viewer.rendering import render
from evalgate.viewer.state import NavigationLink, Viewer, get_viewer

FORMATS = ("adk", "adk-rs", "trpc", "orchestrate")


def get_chat(viewer: Viewer) -> PageChat:
    """Return the conversation of a viewer; its agent is stopped when the viewer ends."""
    found = viewer.services.get(PageChat)
    if not isinstance(found, PageChat):
        found = viewer.services[PageChat] = PageChat(viewer.folder, viewer.thresholds)
        viewer.resources.callback(found.close)
    return found


def show_chat(request: Request) -> Response:
    """Show the conversation and the agents to choose from."""
    return _render_chat(request)


def _render_chat(
    request: Request, *, problem: str = "", typed: str = "", saved: str = "", status_code: int = 200
) -> Response:
    viewer = get_viewer(request)
    state = get_chat(viewer).get_state()
    agents = [(PROJECT_AGENT, "the agent of the thresholds file")]
    agents += [(each, f"adk:{each}") for each in list_adk_agents(viewer.folder)]
    return render(
        request,
        "chat.html.j2",
        status_code=status_code,
        state=state,
        turns=[_build_turn(turn) for turn in state.turns],
        events=[_build_event(event) for event in state.events],
        agents=[(value, words, value == state.agent) for value, words in agents],
        formats=FORMATS,
        default_out=DEFAULT_OUT,
        default_id=choose_case_id(state.turns[0].message.text) if state.turns else "",
        typed=typed or (state.unsent if state.failure is not None else ""),
        problem=problem,
        saved=saved,
    )


def _build_turn(turn: ChatTurn) -> Mapping[str, object]:
    return {
        "message": turn.message.text,
        "events": [_build_event(event) for event in turn.reply.events],
        "response": turn.reply.response,
        "seconds": f"{turn.duration_s:.1f} s",
        "usage": turn.usage,
    }


def _build_event(event: object) -> Mapping[str, object]:
    if isinstance(event, ToolCall):
        args = event.other_args if event.args is None else event.args
        return {"kind": "call", "name": event.name, "value": _format_json(args)}
    if isinstance(event, ToolResult):
        return {"kind": "result", "name": event.name, "value": _format_json(event.result)}
    return {"kind": "says", "name": getattr(event, "author", None) or "", "text": getattr(event, "text", "")}


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


async def change_chat(request: Request) -> Response:
    """Send a message, stop the turn, begin another conversation, or save this one."""
    form = await read_form(request)
    return await run_in_threadpool(partial(_change_chat, request, form))


def _change_chat(request: Request, form: Mapping[str, tuple[str, ...]]) -> Response:
    def get(name: str) -> str:
        return form.get(name, ("",))[0]

    chat, action = get_chat(get_viewer(request)), get("action")
    if action not in {"send", "stop", "new", "save"}:
        raise InvalidInputError("the form has no such button")
    try:
        if action == "send":
            chat.send(get("text").replace("\r\n", "\n"))
        elif action == "stop":
            chat.stop()
        elif action == "new":
            chat.begin(get("agent"))
        else:
            saved = chat.save(get("out").strip(), get("to") or None, get("id").strip())
            more = " Secrets were replaced." if saved.is_redacted else ""
            lost = "".join(f" Not held by the format: {each}." for each in saved.lost)
            sentence = f"Saved in {saved.path} as {saved.format_name}.{more}{lost}"
            return _render_chat(request, saved=f"{sentence} It expects what the agent did: read it first.")
    except InvalidInputError as error:
        return _render_chat(request, problem=str(error), typed=get("text"), status_code=422)
    return RedirectResponse("/chat#end", 303)


routes = (Route("/chat", show_chat), Route("/chat", change_chat, methods=["POST"]))
navigation = (NavigationLink("Chat", "/chat"),)
