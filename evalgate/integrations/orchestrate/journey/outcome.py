"""Find out which goals of a journey a conversation reached.

A journey is a list of goals for a whole conversation. A goal asks for a tool call, for a widget that the
agent shows, or for a text. A check is a goal, too: a statement that a judge must affirm.

Two different texts may mean the same, and only a judge can tell. Without a judge, texts match if they are
equal apart from case and white space, and keywords must occur literally. If then no text matches the response
that a goal asks for, its keywords decide. Without keywords, the goal stays undecided, as all checks do.

The rules are those of watsonx Orchestrate's evaluation framework 1.6.9. A journey may demand that one goal is
reached after another. For this, the framework does not compare times. It puts the reached goals in a fixed
sequence: first goals of tool calls, in the order of the calls; then goals of widgets; then goals of texts.
Goals of widgets, and goals of texts, are in the order of the eval set's file.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Protocol

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseRun,
    EvalCase,
    Event,
    Goal,
    Journey,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.integrations.orchestrate.journey.arguments import find_argument_mismatch
from evalgate.llm.prompt_templates import indent_later_lines

_BLANKS = re.compile(r"\s+")


class TextJudge(Protocol):
    """A judge of texts.

    Its methods return True or False, or None if the judge cannot decide. A judge that asks a model raises
    JudgeError if the model returns no verdict.
    """

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Decide if all of `keywords` occur in `text`; `keywords` must not be empty."""
        ...

    async def matches_text(self, expected: str, text: str) -> bool | None:
        """Decide if `text` means the same as `expected`."""
        ...

    async def confirms_check(self, check: str, transcript: str) -> bool | None:
        """Decide if `check` holds for the transcript."""
        ...


@frozen
class LiteralTextJudge:
    """A judge that compares texts literally, except for case and the amount of white space."""

    leaves_differences_undecided: bool = True
    """If True, texts that differ stay undecided, as they may mean the same; if False, they do not match."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Return True if every keyword occurs in the text literally."""
        plain = _normalize_text(text)
        return all(_normalize_text(keyword) in plain for keyword in keywords)

    async def matches_text(self, expected: str, text: str) -> bool | None:
        """Return True for texts that are equal apart from case and white space.

        For other texts return None (undecided) if `leaves_differences_undecided` is True, otherwise False.
        """
        if _normalize_text(expected) == _normalize_text(text):
            return True
        return None if self.leaves_differences_undecided else False

    async def confirms_check(self, check: str, transcript: str) -> bool | None:
        """Return None: checks need a judge that understands texts."""
        del check, transcript
        return None


def _normalize_text(text: str) -> str:
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text).strip()).casefold()


@frozen
class TextFinding:
    """The result of one goal that asks for a text."""

    goal: Goal
    is_reached: bool | None
    """True if the goal is reached, False if it is not; None if only a judge could decide."""
    has_keywords: bool | None
    """True if one text holds all keywords, False if none does; None if the goal names no keywords."""
    is_response_judged: bool
    """False if only a judge could tell if a text has the goal's response: then keywords decide, if any."""


async def evaluate_text_goals(
    journey: Journey, texts: Sequence[str], judge: TextJudge
) -> tuple[TextFinding, ...]:
    """Evaluate each goal that asks for a text, even if two goals have the same name.

    A goal is reached only if a single text has all of its keywords and its response. If the judge cannot
    compare the response, the keywords alone decide.

    Raises:
        JudgeError: `judge` asks a model, which returns no verdict.
    """
    goals = [goal for goal in journey.goals if goal.type == "text"]
    return tuple([await _evaluate_goal(goal, texts, judge) for goal in goals])


async def _evaluate_goal(goal: Goal, texts: Sequence[str], judge: TextJudge) -> TextFinding:
    has_keywords = not goal.keywords
    verdicts: set[bool | None] = set()
    for text in texts:
        if goal.keywords and not await judge.holds_keywords(goal.keywords, text):
            continue
        has_keywords = True
        if goal.response is None:
            verdicts.add(bool(goal.keywords))  # a goal that asks for nothing is never reached
        else:
            verdicts.add(await judge.matches_text(goal.response, text))
    is_open = None in verdicts and True not in verdicts
    is_reached = True if True in verdicts else None if is_open else False
    if is_open and goal.keywords:
        is_reached = True  # the keywords decide instead of the response
    return TextFinding(goal, is_reached, has_keywords if goal.keywords else None, not is_open)


@frozen
class JourneyConversation:
    """The texts, calls and widgets of one conversation, in order."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]
    """All texts of the agent, responses and messages alike, but not the questions of its widgets."""
    widgets: tuple[JsonObject, ...]
    """Payloads of the widgets that the agent showed."""
    last_said: str
    """The agent's last text, which may be the question of a widget; "" if there is none."""
    transcript: str
    """Lines of `user: …` and `assistant: …`; tool calls and results are written as JSON."""


def build_conversation(case: EvalCase, run: CaseRun) -> JourneyConversation:
    """Return the calls, texts and widgets of a run, and its transcript as text."""
    replies = [reply for reply in run.replies if reply is not None]
    events = [event for reply in replies for event in reply.events]
    all_texts = [text for reply in replies for text in _iter_texts(reply, with_widgets=True)]
    user_messages = run.said or [turn.user for turn in case.turns]
    return JourneyConversation(
        calls=tuple(event for event in events if isinstance(event, ToolCall)),
        texts=tuple(text for reply in replies for text in _iter_texts(reply)),
        widgets=tuple(
            event.payload for event in events if isinstance(event, Message) and event.payload is not None
        ),
        last_said=all_texts[-1] if all_texts else "",
        transcript="\n".join(_iter_transcript_lines(user_messages, run.replies)),
    )


def _iter_texts(reply: Reply, *, with_widgets: bool = False) -> Iterator[str]:
    for event in reply.events:
        if isinstance(event, Message) and (with_widgets or event.payload is None):
            yield event.text
    if reply.response is not None:
        yield reply.response


def _iter_transcript_lines(
    user_messages: Sequence[UserMessage], replies: Sequence[Reply | None]
) -> Iterator[str]:
    for message, reply in zip_longest(user_messages, replies):
        if message is not None:
            yield f"user: {indent_later_lines(message.text)}"
        if reply is not None:
            lines = [*map(_format_event, reply.events), reply.response or ""]
            yield from (f"assistant: {indent_later_lines(line)}" for line in lines if line)


def _format_event(event: Event) -> str:
    value: JsonObject
    match event:
        case Message():
            return event.text
        case ToolCall():
            value = {"type": "tool_call", "name": event.name, "args": event.args, "id": event.id}
        case ToolResult():
            value = {"type": "tool_response", "content": event.result, "name": event.name, "id": event.id}
    return json.dumps(value, ensure_ascii=False, default=str)


@frozen
class ToolCallReport:
    """The result of matching all tool calls with the goals that ask for a call."""

    expected: int
    """Number of goals that ask for a tool call."""
    total: int
    """Number of calls that were made."""
    relevant: int
    """Number of calls to tools that are named in a goal, with any arguments."""
    reached: tuple[str, ...]
    """Names of the goals that a call fulfilled, in the order of the calls."""
    missed: tuple[str, ...]
    """Names of the tools that a goal asks for and that were never called."""
    wrong: tuple[str, ...]
    """An explanation for each relevant call that fulfilled no goal."""

    @property
    def recall(self) -> float | None:
        """Return the share of the tool-call goals that were reached, rounded to hundredths.

        Return None if no goal asks for a call.
        """
        return round(len(self.reached) / self.expected, 2) if self.expected else None

    @property
    def precision(self) -> float | None:
        """Return the share of the calls that fulfilled a goal, rounded to hundredths.

        Return 0.0 if the agent made no call, and None if no goal asks for a call.
        """
        if not self.expected:
            return None
        return round(len(self.reached) / self.total, 2) if self.total else 0.0

    @property
    def details(self) -> JsonObject:
        """Return the counts, with the key names of watsonx Orchestrate's evaluation framework."""
        return {
            "expected_tool_calls": self.expected,
            "total_tool_calls": self.total,
            "correct_tool_calls": len(self.reached),
            "relevant_tool_calls": self.relevant,
            "extra_tool_calls": self.total - len(self.reached),
            "missed_tool_calls": len(self.missed),
            "tool_calls_with_incorrect_parameter": len(self.wrong),
        }

    @property
    def reason(self) -> str:
        """Return the first defect, or "" if every call fulfilled a goal and no call is missing."""
        if self.missed:
            return f"`{self.missed[0]}` was not called"
        if self.wrong:
            return self.wrong[0]
        lacking = self.expected - len(self.reached)
        if lacking:
            return f"{lacking} of {self.expected} expected calls were not made"
        extra = self.total - len(self.reached)
        return f"{extra} of {self.total} calls were not asked for" if extra else ""


def get_goals(journey: Journey, *types: str) -> tuple[Goal, ...]:
    """Return the goals of the journey that have one of `types`. Each name occurs once.

    If several goals share a name, the result has the last of them, at the position of the first.
    """
    named = {goal.name: goal for goal in journey.goals if goal.type in types}
    return tuple(named.values())


def match_tool_calls(journey: Journey, calls: Sequence[ToolCall]) -> ToolCallReport:
    """Match the calls, in order, with the goals that ask for a call.

    Each call fulfils the first matching goal that no earlier call has fulfilled.
    """
    goals = get_goals(journey, "tool_call")
    names = {goal.tool_name.strip() for goal in goals}
    left = list(goals)
    reached, wrong, relevant = list[str](), list[str](), 0
    for call in calls:
        # As in the framework, a call with blanks around its name is relevant, but fulfils no goal.
        if call.name.strip() not in names:
            continue
        relevant += 1
        # Greedy, as in the framework, and no maximum matching: a repeated call is a wrong call.
        goal = next(_find_fulfilled_goals(left, call), None)
        if goal is None:
            wrong.append(_explain_mismatch(left, call))
        else:
            left.remove(goal)
            reached.append(goal.name)
    # By tool: a second goal of a tool that was called once is not missed.
    called = {call.name for call in calls}
    missed = dict.fromkeys(goal.tool_name for goal in goals if goal.tool_name not in called)
    return ToolCallReport(len(goals), len(calls), relevant, tuple(reached), tuple(missed), tuple(wrong))


def _find_fulfilled_goals(goals: Sequence[Goal], call: ToolCall) -> Iterator[Goal]:
    return (
        goal
        for goal in goals
        if goal.tool_name == call.name and not find_argument_mismatch(goal, call.args or {})
    )


def _explain_mismatch(left: Sequence[Goal], call: ToolCall) -> str:
    goal = next((goal for goal in left if goal.tool_name == call.name), None)
    if goal is None:
        return f"`{call.name}` was called more often than asked for"
    return f"`{call.name}` for the goal `{goal.name}`: {find_argument_mismatch(goal, call.args or {})}"


_NO_GOALS_REACHED = "no goal was reached"


@frozen
class JourneyOutcome:
    """The results of all goals of a journey in one run."""

    order: Mapping[str, tuple[str, ...]]
    """Maps the name of a goal to the names of the goals that must be reached after it."""
    calls: ToolCallReport
    widgets: tuple[str, ...]
    """Names of the reached goals that ask for a widget."""
    widgets_expected: int
    """Number of goals that ask for a widget."""
    texts: tuple[TextFinding, ...]
    checks: tuple[bool | None, ...]
    """Verdict on each check: True if it holds, False if not, None if the judge cannot decide."""

    @property
    def undecided(self) -> str:
        """Return a sentence about one goal or check that needs a judge; "" if all are decided."""
        for text in self.texts:
            if text.is_reached is None:
                return f"only a judge can tell whether a text says what the goal `{text.goal.name}` expects"
        return "only a judge can tell whether the checks hold" if None in self.checks else ""

    def explain_failure(self, *, accept_undecided: bool) -> str:
        """Explain the journey's failure; return "" if it is a success.

        With `accept_undecided`, goals and checks that only a judge can decide count as reached.
        """
        ordering = [
            *self.calls.reached,
            *self.widgets,
            *self._iter_reached_texts(accept_undecided=accept_undecided),
        ]
        position = {name: at for at, name in enumerate(ordering)}
        # In the framework, too, a journey of checks alone never succeeds.
        if not ordering:
            return _NO_GOALS_REACHED
        return next(self._iter_failures(position, accept_undecided=accept_undecided), "")

    def _iter_reached_texts(self, *, accept_undecided: bool) -> Iterator[str]:
        """Yield the names of reached text goals, each once, in the order of the goals.

        If two goals share a name, one reached goal suffices.
        """
        reached = {
            text.goal.name
            for text in self.texts
            if text.is_reached or (accept_undecided and text.is_reached is None)
        }
        yield from (name for name in dict.fromkeys(text.goal.name for text in self.texts) if name in reached)

    def _iter_failures(self, position: Mapping[str, int], *, accept_undecided: bool) -> Iterator[str]:
        for name, later in self.order.items():
            for each in (name, *later):
                if each not in position:
                    yield f"the goal `{each}` was not reached"
            for child in later:
                if name in position and child in position and position[name] >= position[child]:
                    yield f"the goal `{child}` must come after `{name}`"
        if not all(check or (accept_undecided and check is None) for check in self.checks):
            yield "a check does not hold"

    def compute_completion(self) -> float | None:
        """Return the share of the goals and checks that were reached, 0 to 1, rounded to hundredths.

        Counted are all checks, and the goals that ask for a tool call, a widget or a text. Return None if the
        journey has none of these. The order in which goals were reached is ignored. An undecided goal or
        check counts as not reached.
        """
        others = len(self.texts) + self.widgets_expected + len(self.checks)
        # Without other goals the framework takes the recall, which may be undefined.
        if not others:
            return self.calls.recall
        texts = len({text.goal.name for text in self.texts if text.is_reached})
        checks = sum(check is True for check in self.checks)
        reached = len(self.calls.reached) + texts + len(self.widgets) + checks
        return round(reached / (self.calls.expected + others), 2)

    @property
    def details(self) -> JsonObject:
        """Return the counts of calls, and the result of each text goal by name, for the record."""
        unjudged = [text.goal.name for text in self.texts if not text.is_response_judged]
        texts = {text.goal.name: text.is_reached for text in self.texts}
        return {
            **self.calls.details,
            **({"texts": texts} if texts else {}),
            **({"not_judged": unjudged} if unjudged else {}),
        }


async def evaluate_journey(
    case: EvalCase, run: CaseRun, journey: Journey, judge: TextJudge
) -> JourneyOutcome:
    """Compare a run's whole conversation with the journey's goals.

    Raises:
        RecursionError: arguments of a tool call are nested too deep.
        JudgeError: `judge` asks a model, which returns no verdict.
    """
    conversation = build_conversation(case, run)
    interactions = get_goals(journey, "interaction")
    # Calls come first: arguments that nest too deep end the evaluation before a model is asked and paid.
    calls = match_tool_calls(journey, conversation.calls)
    widgets = tuple(_iter_reached_widgets(interactions, conversation.widgets))
    # A text counts wherever it was said, even before the calls: the framework ignores its position.
    texts = await evaluate_text_goals(journey, conversation.texts, judge)
    checks = []
    for goal in journey.goals:
        if goal.type == "check":
            text = conversation.last_said if goal.scope == "response" else conversation.transcript
            checks.append(await judge.confirms_check(goal.check, text))
    return JourneyOutcome(
        order=journey.order,
        calls=calls,
        widgets=widgets,
        widgets_expected=sum(goal.type == "interaction" for goal in journey.goals),
        texts=texts,
        checks=tuple(checks),
    )


def _iter_reached_widgets(goals: Sequence[Goal], widgets: Sequence[JsonObject]) -> Iterator[str]:
    """Yield the names of the goals that a widget fulfils; each widget fulfils at most one goal."""
    left = list(widgets)
    for goal in goals:
        key, value = goal.identifier or ("", "")
        for at, widget in enumerate(left):
            if key in widget and str(widget[key]) == value:
                del left[at]
                yield goal.name
                break
