"""Build conversations from traces: join the traces of a session, in order of time, without repeated history.

Most agents send the whole conversation with every request to a model. Earlier turns are read from their own
traces. If these traces are missing (not sampled, or older), the turns are read from the later request.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from evalgate.agents.tracing.attribute_names import convert_span, find_conversation_id
from evalgate.agents.tracing.chat_messages import ChatMessage, get_message_text
from evalgate.agents.tracing.genai import read_transcript
from evalgate.agents.tracing.trace_formats import Span
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseTurn, Event, Message, Reply, ToolCall, ToolResult, UserMessage
from evalgate.integrations.trace_sources.traces import Feedback, RecordedTrace

_SLUG_WORDS = 6
_LONGEST_SLUG = 40
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_MOST_MESSAGES = 100_000
_CASE_NAME = "evalgate.case"


@frozen
class ObservedConversation:
    """A conversation between a user and an agent, as it was recorded."""

    key: str
    """Id of the session or, in traces of evalgate's own runs, name of the case. Without both, the id of the
    first trace."""
    turns: tuple[CaseTurn, ...]
    trace_ids: tuple[str, ...]
    start: int
    """Start of the first trace, in nanoseconds since the epoch."""
    url: str = ""
    """URL of the first trace that has a known page in the tracing tool; "" if no trace has one."""
    tags: tuple[str, ...] = ()
    feedback: Feedback = field(default_factory=dict)
    error: str = ""
    """Error of the first trace that failed; "" if none failed."""
    turn_spans: tuple[tuple[Span, ...], ...] = ()
    """Recorded spans of each turn; () for a turn that was read from the history in a later request."""

    @property
    def tool_path(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the called tools in order, turn by turn."""
        return tuple(tuple(call.name for call in turn.expected.tool_calls) for turn in self.turns)

    def build_case_id(self, question: str) -> str:
        """Return an id that is the same in every import: words of `question`, and a hash of `key`."""
        words = _NOT_IN_SLUG.sub(" ", question[:400].lower()).split()[:_SLUG_WORDS]
        digest = hashlib.sha256(self.key.encode(errors="replace")).hexdigest()[:10]
        return "-".join([*"_".join(words)[:_LONGEST_SLUG].strip("_").split(), digest])


@frozen
class _ObservedTurn:
    """A turn of a trace, with `history`: earlier turns that the first request to a model repeats."""

    question: str
    reply: Reply
    spans: tuple[Span, ...]
    history: tuple[CaseTurn, ...]
    resumes: bool
    """True if the first request has messages after the question: the turn may continue an earlier trace."""
    recorded: tuple[Span, ...] = ()
    """`spans` as they were recorded: without the conversion of attributes to OpenTelemetry's GenAI names."""


@dataclass
class _Session:
    turns: list[CaseTurn] = field(default_factory=list)
    turn_spans: list[tuple[Span, ...]] = field(default_factory=list)
    """Recorded spans of each turn, as in `ObservedConversation`."""
    last_spans: tuple[Span, ...] = ()
    traces: list[RecordedTrace] = field(default_factory=list)

    @property
    def questions(self) -> list[str]:
        return [turn.user.text for turn in self.turns]


def build_conversations(
    traces: Sequence[RecordedTrace], *, needs_questions: bool = True
) -> tuple[list[ObservedConversation], list[tuple[str, str]]]:
    """Return the conversations in traces, and (id, reason) of each unusable trace.

    `traces` must be sorted by time, and so is the result. A turn without a recorded message of the user is
    left out; if `needs_questions` is False, it is kept with the message "". A trace without a turn is
    unusable.
    """
    sessions: dict[str, _Session] = {}
    by_questions: dict[tuple[str, ...], str] = {}
    unusable: list[tuple[str, str]] = []
    for trace in traces:
        turns = [turn for turn in iter_turns(trace) if turn.question or not needs_questions]
        if not turns:
            unusable.append((trace.info.trace_id, "no message of a user was recorded"))
            continue
        key = trace.info.conversation_id or _find_session_id(trace)
        if not key:
            key = _find_continued_key(turns[0], by_questions) or trace.info.trace_id
        session = sessions.setdefault(key, _Session())
        session.traces.append(trace)
        for turn in turns:
            _add_turn(session, turn)
        by_questions[tuple(session.questions)] = key
    found = [_build_conversation(key, session) for key, session in sessions.items()]
    return sorted(found, key=lambda each: (each.start, each.key)), unusable


def select_whole_traces(
    traces: Iterable[RecordedTrace], unfinished: Collection[str]
) -> tuple[RecordedTrace, ...]:
    """Return the traces that are surely complete, although reading their source failed midway.

    A complete trace meets three conditions:

    - It has a root span, or no span at all (only facts, such as feedback).
    - It has no session, because other traces of a session may be missing.
    - Its id is not in `unfinished`, the ids of the traces in the last object that was read. More objects of
      these traces may be missing.
    """
    return tuple(
        trace
        for trace in traces
        if trace.info.trace_id not in unfinished
        and not (trace.info.conversation_id or _find_session_id(trace))
        and (not trace.spans or any(not span.parent_id for span in trace.spans))
    )


def _find_session_id(trace: RecordedTrace) -> str:
    for span in trace.spans:
        for attributes in (span.attributes, span.resource):
            if _CASE_NAME in attributes:
                return str(attributes[_CASE_NAME])
    return next((name for span in trace.spans if (name := find_conversation_id(span))), "")


def _find_continued_key(turn: _ObservedTurn, by_questions: dict[tuple[str, ...], str]) -> str:
    """Return the key of the conversation that a trace continues; "" if it continues none.

    `turn` is the first turn of the trace. Its request repeats the earlier questions, which identify the
    conversation. `by_questions` maps all questions of each conversation so far to the conversation's key.
    """
    asked = tuple(each.user.text for each in turn.history)
    if turn.resumes and (key := by_questions.get((*asked, turn.question))):
        return key
    return by_questions.get(asked, "") if asked else ""


def _add_turn(session: _Session, turn: _ObservedTurn) -> None:
    asked = [each.user.text for each in turn.history]
    known = session.questions
    if turn.resumes and known == [*asked, turn.question]:
        # The same question again, followed by calls and results: several traces of one loop of calls.
        spans = (*session.last_spans, *turn.spans)
        session.turns[-1] = replace(session.turns[-1], expected=read_transcript(spans).reply)
        session.last_spans = spans
        session.turn_spans[-1] += turn.recorded
        return
    if asked[: len(known)] == known:
        missing = turn.history[len(known) :]
        session.turns += missing
        session.turn_spans += [()] * len(missing)
    session.turns.append(CaseTurn(UserMessage(turn.question), turn.reply))
    session.turn_spans.append(turn.recorded)
    session.last_spans = turn.spans


def _build_conversation(key: str, session: _Session) -> ObservedConversation:
    infos = [trace.info for trace in session.traces]
    errors = (trace.info.error or _find_error(trace) for trace in session.traces)
    return ObservedConversation(
        key=key,
        turns=tuple(session.turns),
        trace_ids=tuple(info.trace_id for info in infos),
        start=min(trace.start for trace in session.traces),
        url=next((info.url for info in infos if info.url), ""),
        tags=tuple(dict.fromkeys(tag for info in infos for tag in info.tags)),
        feedback={name: value for info in infos for name, value in info.feedback.items()},
        error=next(filter(None, errors), ""),
        turn_spans=tuple(session.turn_spans),
    )


def _find_error(trace: RecordedTrace) -> str:
    """Return the error of a root span of the trace; "" if there is none.

    Errors of other spans do not count, because an agent may have handled the errors of its tools.
    """
    ids = {span.span_id for span in trace.spans}
    return next((span.error for span in trace.spans if span.error and span.parent_id not in ids), "")


# --- the turns of one trace ---------------------------------------------------------------------------------


def iter_turns(trace: RecordedTrace) -> Iterator[_ObservedTurn]:
    """Yield the turns of a trace: one, or several if the trace holds a whole conversation.

    The question of a turn is "" if no message of the user was recorded.
    """
    recorded = sorted(trace.spans, key=lambda span: (span.start, span.end))
    spans = list(map(convert_span, recorded))
    parts = _split_turns(spans)
    for number, part in enumerate(parts):
        turn = replace(_read_turn([spans[at] for at in part]), recorded=tuple(recorded[at] for at in part))
        if not turn.question and trace.info.question:
            turn = replace(turn, question=trace.info.question)
        if turn.reply.response is None and number == len(parts) - 1 and trace.info.answer:
            turn = replace(turn, reply=replace(turn.reply, response=trace.info.answer))
        yield turn


def _split_turns(spans: list[Span]) -> list[list[int]]:
    """Return the indices of the spans of each turn. `spans` are all spans of a trace, sorted by start."""
    roots = _find_roots(spans)
    requests: list[Span] = []
    """First request of each turn."""
    asked: list[str] = []
    root = ""
    for span in spans:
        if span.get_text("gen_ai.operation.name") != "chat":
            continue
        questions = [text for _, text in _list_questions(_get_messages(span, "gen_ai.input.messages"))]
        if not questions:
            continue
        # A request begins a turn if it adds a question to those of the request before it, or if it has other
        # questions and another root span.
        grown = bool(asked) and len(questions) > len(asked) and questions[: len(asked)] == asked
        other_root = bool(root) and roots[span.span_id] != root and questions != asked
        if not asked or grown or other_root:
            requests.append(span)
            asked, root = questions, roots[span.span_id]
    if len(requests) < 2:
        return [list(range(len(spans)))]
    # A span belongs to the last turn that began before it. An agent's span around several turns is in none.
    edges = [0, *(_find_turn_start(spans, request) for request in requests[1:]), 2**80]
    parts = [
        [
            at
            for at, span in enumerate(spans)
            if begin <= span.start < end
            and not (span.end > end and span.get_text("gen_ai.operation.name") == "invoke_agent")
        ]
        for begin, end in pairwise(edges)
    ]
    return [part for part in parts if part]


def _find_turn_start(spans: list[Span], request: Span) -> int:
    """Return the start of a turn, in nanoseconds. `request` is the turn's first request to a model.

    The turn begins with the outermost span around `request` that began after the previous request to a model.
    Spans that began before the previous request belong to earlier turns, too.
    """
    by_id = {span.span_id: span for span in spans}
    models = (span for span in spans if span.get_text("gen_ai.operation.name") == "chat")
    last = max((span.start for span in models if span.start < request.start), default=request.start)
    outermost, seen = request, {request.span_id}
    while (parent := by_id.get(outermost.parent_id)) and parent.span_id not in seen and parent.start > last:
        outermost = parent
        seen.add(parent.span_id)
    return min(outermost.start, request.start)


def _find_roots(spans: list[Span]) -> dict[str, str]:
    """Return the id of the root of each span, by span id: the topmost ancestor that was recorded.

    A span without a recorded parent is its own root. In a cycle of parents, any span may be the root.
    """
    by_id = {span.span_id: span for span in spans}
    roots: dict[str, str] = {}
    for span in spans:
        top, seen = span, {span.span_id}
        while top.parent_id in by_id and top.parent_id not in seen and top.span_id not in roots:
            top = by_id[top.parent_id]
            seen.add(top.span_id)
        roots |= dict.fromkeys(seen, roots.get(top.span_id, top.span_id))
    return roots


def _read_turn(spans: Sequence[Span]) -> _ObservedTurn:
    transcript = read_transcript(spans)
    models = [span for span in spans if span.get_text("gen_ai.operation.name") == "chat"]
    asking = next((span for span in models if _get_messages(span, "gen_ai.input.messages")), None)
    if asking is None:
        return _ObservedTurn(transcript.question, transcript.reply, tuple(spans), (), resumes=False)
    messages = _get_messages(asking, "gen_ai.input.messages")
    questions = _list_questions(messages)
    at = questions[-1][0] if questions else len(messages)
    reply, later = transcript.reply, messages[at + 1 :]
    has_executions = any(span.get_text("gen_ai.operation.name") == "execute_tool" for span in spans)
    if later and not has_executions:
        # Only the last request of a loop of calls was recorded: the calls before it are in its messages.
        lead = _read_events(later)
        known = {event.id for event in lead if isinstance(event, ToolResult) and event.id}
        rest = (event for event in reply.events if not (isinstance(event, ToolResult) and event.id in known))
        reply = replace(reply, events=(*lead, *rest))
    question = questions[-1][1] if questions else transcript.question
    return _ObservedTurn(question, reply, tuple(spans), tuple(_read_history(messages[:at])), bool(later))


def _get_messages(span: Span, name: str) -> list[ChatMessage]:
    found = span.attributes.get(name)
    return (
        [each for each in found if isinstance(each, dict)][:_MOST_MESSAGES] if isinstance(found, list) else []
    )


def _list_questions(messages: Sequence[ChatMessage]) -> list[tuple[int, str]]:
    """Return the index and the text of each message of the user that has a text."""
    return [
        (index, text)
        for index, message in enumerate(messages)
        if message.get("role") == "user" and (text := get_message_text(message))
    ]


def _read_history(messages: Sequence[ChatMessage]) -> Iterator[CaseTurn]:
    """Yield the turns in messages; each begins with a message of the user."""
    questions = _list_questions(messages)
    ends = [*(index for index, _ in questions[1:]), len(messages)]
    for (index, text), end in zip(questions, ends, strict=False):
        events = _read_events(messages[index + 1 : end])
        last = events[-1] if events else None
        if isinstance(last, Message):
            yield CaseTurn(UserMessage(text), Reply(last.text, tuple(events[:-1])))
        else:
            yield CaseTurn(UserMessage(text), Reply(None, tuple(events)))


def _read_events(messages: Sequence[ChatMessage]) -> list[Event]:
    names: dict[str, str] = {}
    parts = (part for message in messages if message.get("role") != "system" for part in message["parts"])
    return [event for part in parts if (event := _read_event(part, names)) is not None]


def _read_event(part: dict[str, Any], names: dict[str, str]) -> Event | None:
    kind, id_ = part.get("type"), str(part.get("id") or "")
    if kind == "text":
        return Message(part["content"]) if isinstance(part.get("content"), str) else None
    if kind == "tool_call":
        names[id_] = name = str(part.get("name") or "")
        args = part.get("arguments")
        if args is None or isinstance(args, dict):
            return ToolCall(name, args, id_ or None)
        return ToolCall(name, None, id_ or None, other_args=args)
    if kind == "tool_call_response" and id_ in names:
        return ToolResult(names[id_], part.get("response"), id_ or None)
    return None
