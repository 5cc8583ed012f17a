"""Page on which the user talks with an agent, and saves the conversation as a case."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Reply, ToolCall, ToolResult, TraceSpan
from evalgate.reporting.html.trace import render_waterfall
from evalgate.reporting.trace_view import build_trace_view
from evalgate.runner.chat import ChatTurn, choose_case_id
from evalgate.runner.saved_cases import DEFAULT_OUT
from evalgate.viewer.background_chat import BackgroundChat
from evalgate.viewer.case_views import create_budget
from evalgate.viewer.forms import get_field, read_form
from evalgate.viewer.project_agents import describe_agent
from evalgate.viewer.rendering import render
from evalgate.viewer.state import NavigationLink, Viewer, get_viewer
from evalgate.viewer.trace_page import build_trace_page

_MOST_STEPS = 200
_FAILED = "failed"
"""Value of the parameter `turn` for the turn without a reply; for other turns it is their number."""
FORMATS = ("adk", "adk-rs", "trpc", "orchestrate")


def get_chat(viewer: Viewer) -> BackgroundChat:
    """Return the only conversation of a viewer; the first call creates it. It is closed with the viewer."""
    return viewer.get_service(BackgroundChat, lambda: BackgroundChat(viewer.folder, viewer.thresholds))


def show_chat(request: Request) -> Response:
    """Return the page with the conversation and the agents to choose from."""
    return _render_chat(request)


def _render_chat(
    request: Request,
    *,
    problem: str = "",
    typed: str = "",
    saved: str = "",
    form: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    status_code: int = 200,
) -> Response:
    """Return the chat page.

    `problem` and `saved` are messages about the last action, and `typed` is an unsent message; "" for none.
    If saving failed, `form` has the typed fields, which the page shows again.
    """
    chat = get_chat(get_viewer(request))
    state = chat.get_state()
    return render(
        request,
        "chat.html.j2",
        status_code=status_code,
        state=state,
        turns=[_build_turn(at, state.turns) for at in range(len(state.turns))],
        failed=_build_trace(state.failed_trace, (), _FAILED),
        picked=form.get("turn", ()) if form else [str(at) for at in range(len(state.turns))],
        events=[_build_event(event) for event in state.events],
        agents=[(each, describe_agent(each), each == state.agent) for each in chat.list_choices()],
        formats=FORMATS,
        out=form.get("out", (DEFAULT_OUT,))[0],
        to=get_field(form, "to"),
        eval_id=form.get("id", (choose_case_id(state.turns[0].message.text) if state.turns else "",))[0],
        typed=typed or (state.unsent if state.failure is not None else ""),
        problem=problem,
        saved=saved,
    )


def _build_turn(at: int, turns: Sequence[ChatTurn]) -> Mapping[str, object]:
    turn = turns[at]
    return {
        "trace": _build_trace(turn.trace, [each.reply for each in turns], str(at + 1)),
        "message": turn.message.text,
        "events": [_build_event(event) for event in turn.reply.events],
        "response": turn.reply.response,
        "seconds": f"{turn.duration_s:.1f} s",
        "usage": turn.usage,
    }


def _build_trace(
    spans: Sequence[TraceSpan], replies: Sequence[Reply | None], number: str
) -> Mapping[str, str] | None:
    """Return the steps of a turn as HTML (`steps`), with the texts `totals` and `note`; None without steps.

    Each step has a link to its details. `number` names the turn in these links: 1, 2, …, or `_FAILED`.
    """
    view = build_trace_view(spans, replies, limit=_MOST_STEPS)
    if not view.rows:
        return None
    steps = render_waterfall(view, link=f"/chat/trace?turn={number}&span=")
    return {"steps": steps, "totals": str(view.totals), "note": view.note}


def _build_event(event: object) -> Mapping[str, object]:
    if isinstance(event, ToolCall):
        return {"kind": "call", "name": event.name, "value": _format_json(event.arguments)}
    if isinstance(event, ToolResult):
        return {"kind": "result", "name": event.name, "value": _format_json(event.result)}
    return {"kind": "says", "name": getattr(event, "author", None) or "", "text": getattr(event, "text", "")}


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def show_trace(request: Request) -> Response:
    """Return the page with the steps of one turn, one of them in detail."""
    state, number = get_chat(get_viewer(request)).get_state(), request.query_params.get("turn", "")
    at = next((at for at in range(len(state.turns)) if str(at + 1) == number), None)
    is_failed = number == _FAILED and bool(state.failed_trace)
    if at is None and not is_failed:
        raise InvalidInputError("the conversation has no such turn any more")
    trace = build_trace_page(
        state.failed_trace if at is None else state.turns[at].trace,
        [turn.reply for turn in state.turns] if at is not None else (),
        selected=request.query_params.get("span", ""),
        panel=request.query_params.get("panel", ""),
        address=f"/chat/trace?turn={number}",
        budget=create_budget(),
    )
    return render(
        request,
        "chat_trace.html.j2",
        title="Trace of the turn without a reply" if at is None else f"Trace of turn {at + 1}",
        trace=trace,
        turn=None if at is None else _build_turn(at, state.turns),
        current=trace.event[1] if trace.event else -1,
    )


async def change_chat(request: Request) -> Response:
    """Send a message, stop the turn, begin a new conversation, or save this one, depending on the button."""
    form = await read_form(request)
    return await run_in_threadpool(partial(_change_chat, request, form))


def _change_chat(request: Request, form: Mapping[str, tuple[str, ...]]) -> Response:
    get = partial(get_field, form)
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
            picked = {
                int(each)
                for each in form.get("turn", ())
                if each.isascii() and each.isdecimal() and len(each) < 9
            }
            saved = chat.save(get("out").strip(), get("to") or None, get("id").strip(), picked)
            more = " Secrets were replaced." if saved.is_redacted else ""
            lost = "".join(f" Not held by the format: {each}." for each in saved.lost)
            sentence = f"Saved in {saved.path} as {saved.format_name}.{more}{lost}"
            return _render_chat(request, saved=f"{sentence} It expects what the agent did: read it first.")
    except InvalidInputError as error:
        sent = form if action == "save" else {}
        return _render_chat(request, problem=str(error), typed=get("text"), form=sent, status_code=422)
    return RedirectResponse("/chat#end", 303)


routes = (
    Route("/chat", show_chat),
    Route("/chat", change_chat, methods=["POST"]),
    Route("/chat/trace", show_trace),
)
navigation = (NavigationLink("Chat", "/chat"),)
