"""What a conversation reached of its journey: tool calls, texts, and their order.

Whether a text says what it should is for a judge to tell. Without one, keywords are looked up, equal texts
are equal, and the rest is left open.

The rules are those of watsonx Orchestrate's evaluation framework 1.6.9: goals of tool calls come first, in
the order in which they were reached, then widgets, then texts, both in the order of the file.
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
from evalgate.llm.prompting import indent_later_lines

_BLANKS = re.compile(r"\s+")


class TextJudge(Protocol):
    """Somebody who understands texts. None: cannot tell."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Whether all of `keywords`, at least one, occur in `text`."""
        ...

    async def matches_text(self, expected: str, text: str) -> bool | None:
        """Whether `text` says what `expected` says."""
        ...

    async def confirms_check(self, check: str, transcript: str) -> bool | None:
        """Whether `check` is true of what was said."""
        ...


@frozen
class LiteralTextJudge:
    """Compares letters: any case, any blanks. Knows nothing of meaning."""

    knows_only_equal: bool = True
    """Texts that differ may still mean the same: leave that open. False: they say different things."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Each stands in the text, letter by letter."""
        plain = _normalize_text(text)
        return all(_normalize_text(keyword) in plain for keyword in keywords)

    async def matches_text(self, expected: str, text: str) -> bool | None:
        """True when equal."""
        if _normalize_text(expected) == _normalize_text(text):
            return True
        return None if self.knows_only_equal else False

    async def confirms_check(self, check: str, transcript: str) -> bool | None:
        """Cannot tell."""
        del check, transcript
        return None


def _normalize_text(text: str) -> str:
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text).strip()).casefold()


@frozen
class TextFinding:
    """What became of one goal that asks for a text."""

    goal: Goal
    is_reached: bool | None
    """None: only a judge can tell."""
    has_keywords: bool | None
    """Whether one text holds all keywords; None when the goal names none."""
    is_response_judged: bool
    """Whether the expected response was compared, or its keywords stand for it."""


async def evaluate_text_goals(
    journey: Journey, texts: Sequence[str], judge: TextJudge
) -> tuple[TextFinding, ...]:
    """What became of every goal that asks for a text, a name that stands twice included.

    A single text must meet all that a goal asks.
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
        verdicts.add(await _matches_response(goal, text, judge))
    is_open = None in verdicts and True not in verdicts
    is_reached = True if True in verdicts else None if is_open else False
    if is_open and goal.keywords:
        is_reached = True  # the keywords stand for the response
    return TextFinding(goal, is_reached, has_keywords if goal.keywords else None, not is_open)


async def _matches_response(goal: Goal, text: str, judge: TextJudge) -> bool | None:
    if goal.response is not None:
        return await judge.matches_text(goal.response, text)
    return bool(goal.keywords)  # a goal that asks for nothing is never reached


@frozen
class JourneyConversation:
    """One conversation, in order."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]
    """What the agent said, responses and messages alike, but not what its widgets asked."""
    widgets: tuple[JsonObject, ...]
    """What the agent showed."""
    last_said: str
    """The agent's last text, be it a widget's; "" when it said nothing."""
    transcript: str
    """Lines of `user: …` and `assistant: …`, those of tool calls and results as JSON."""


def build_conversation(case: EvalCase, run: CaseRun) -> JourneyConversation:
    """The conversation that a run was."""
    replies = [reply for reply in run.replies if reply is not None]
    events = [event for reply in replies for event in reply.events]
    said = [text for reply in replies for text in _iter_texts(reply, with_widgets=True)]
    return JourneyConversation(
        calls=tuple(event for event in events if isinstance(event, ToolCall)),
        texts=tuple(text for reply in replies for text in _iter_texts(reply)),
        widgets=tuple(
            event.payload for event in events if isinstance(event, Message) and event.payload is not None
        ),
        last_said=said[-1] if said else "",
        transcript="\n".join(_iter_transcript_lines(_get_user_messages(case, run), run.replies)),
    )


def _iter_texts(reply: Reply, *, with_widgets: bool = False) -> Iterator[str]:
    for event in reply.events:
        if isinstance(event, Message) and (with_widgets or event.payload is None):
            yield event.text
    if reply.response is not None:
        yield reply.response


def _get_user_messages(case: EvalCase, run: CaseRun) -> Sequence[UserMessage]:
    return run.said or [turn.user for turn in case.turns]


def _iter_transcript_lines(said: Sequence[UserMessage], replies: Sequence[Reply | None]) -> Iterator[str]:
    for message, reply in zip_longest(said, replies):
        if message is not None:
            yield f"user: {indent_later_lines(message.text)}"
        if reply is not None:
            lines = [*map(_format_event, reply.events), reply.response or ""]
            yield from (f"assistant: {indent_later_lines(line)}" for line in lines if line)


def _format_event(event: Event) -> str:
    told: JsonObject
    match event:
        case Message():
            return event.text
        case ToolCall():
            told = {"type": "tool_call", "name": event.name, "args": event.args, "id": event.id}
        case ToolResult():
            told = {"type": "tool_response", "content": event.result, "name": event.name, "id": event.id}
    return json.dumps(told, ensure_ascii=False, default=str)


@frozen
class ToolCallReport:
    """What became of every call, and of every goal that asks for one."""

    expected: int
    """Goals that ask for a tool call."""
    total: int
    """Calls that were made."""
    relevant: int
    """Calls of a tool that some goal asks for."""
    reached: tuple[str, ...]
    """Names of the goals that a call fulfilled, in the order of the calls."""
    missed: tuple[str, ...]
    """Tools that a goal asks for and nobody called."""
    wrong: tuple[str, ...]
    """Why a relevant call fulfilled no goal, for each such call."""

    @property
    def recall(self) -> float | None:
        """Goals that were reached by those expected, in hundredths as the original rounds; None without."""
        return round(len(self.reached) / self.expected, 2) if self.expected else None

    @property
    def precision(self) -> float | None:
        """Calls that fulfilled a goal by all calls, in hundredths; None where no goal asks for a call."""
        if not self.expected:
            return None
        return round(len(self.reached) / self.total, 2) if self.total else 0.0

    @property
    def details(self) -> JsonObject:
        """The counts, by the names that the original gives them."""
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
        """The first thing that is not as it should be; "" when every call was right and none is lacking."""
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
    """The goals of these types. A name that stands twice keeps its first place and takes its last meaning."""
    named = {goal.name: goal for goal in journey.goals if goal.type in types}
    return tuple(named.values())


def match_tool_calls(journey: Journey, calls: Sequence[ToolCall]) -> ToolCallReport:
    """Go through the calls in order; each fulfils the first goal that is still open and fits it."""
    goals = get_goals(journey, "tool_call")
    names = {goal.tool_name.strip() for goal in goals}
    left = list(goals)
    reached, wrong, relevant = list[str](), list[str](), 0
    for call in calls:
        if call.name.strip() not in names:
            continue
        relevant += 1
        goal = next(_find_fulfilled_goals(left, call), None)
        if goal is None:
            wrong.append(_explain_mismatch(left, call))
        else:
            left.remove(goal)
            reached.append(goal.name)
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
    """What became of every goal."""

    order: Mapping[str, tuple[str, ...]]
    calls: ToolCallReport
    widgets: tuple[str, ...]
    """Goals that ask for a widget and were reached."""
    widgets_expected: int
    texts: tuple[TextFinding, ...]
    checks: tuple[bool | None, ...]
    """What a judge says of each check; None: nobody could tell."""

    @property
    def undecided(self) -> str:
        """What only a judge can tell; "" when nothing is."""
        for text in self.texts:
            if text.is_reached is None:
                return f"only a judge can tell whether a text says what the goal `{text.goal.name}` expects"
        return "only a judge can tell whether the checks hold" if None in self.checks else ""

    def explain_failure(self, *, doubts_count: bool) -> str:
        """Why the journey is no success; "" when it is one. `doubts_count`: what is undecided is reached."""
        ordering = [*self.calls.reached, *self.widgets, *self._iter_reached_texts(doubts_count=doubts_count)]
        place = {name: at for at, name in enumerate(ordering)}
        if not ordering:
            return _NO_GOALS_REACHED
        return next(self._iter_failures(place, doubts_count=doubts_count), "")

    def _iter_reached_texts(self, *, doubts_count: bool) -> Iterator[str]:
        """A name that stands twice has its first place, and is reached when either goal is."""
        reached = {
            text.goal.name
            for text in self.texts
            if text.is_reached or (doubts_count and text.is_reached is None)
        }
        yield from (name for name in dict.fromkeys(text.goal.name for text in self.texts) if name in reached)

    def _iter_failures(self, place: Mapping[str, int], *, doubts_count: bool) -> Iterator[str]:
        for name, later in self.order.items():
            for each in (name, *later):
                if each not in place:
                    yield f"the goal `{each}` was not reached"
            for child in later:
                if name in place and child in place and place[name] >= place[child]:
                    yield f"the goal `{child}` must come after `{name}`"
        if not all(check or (doubts_count and check is None) for check in self.checks):
            yield "a check does not hold"

    def compute_completion(self) -> float | None:
        """Goals reached by goals expected, in hundredths; None when there is none. Order does not count."""
        others = len(self.texts) + self.widgets_expected + len(self.checks)
        if not others:
            return self.calls.recall
        texts = len({text.goal.name for text in self.texts if text.is_reached})
        checks = sum(check is True for check in self.checks)
        reached = len(self.calls.reached) + texts + len(self.widgets) + checks
        return round(reached / (self.calls.expected + others), 2)

    @property
    def details(self) -> JsonObject:
        """What the numbers come from."""
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
    """Hold a run's whole conversation against the journey."""
    conversation = build_conversation(case, run)
    interactions = get_goals(journey, "interaction")
    return JourneyOutcome(
        order=journey.order,
        calls=match_tool_calls(journey, conversation.calls),
        widgets=tuple(_iter_reached_widgets(interactions, conversation.widgets)),
        widgets_expected=sum(goal.type == "interaction" for goal in journey.goals),
        texts=await evaluate_text_goals(journey, conversation.texts, judge),
        checks=tuple([await _confirm_check(goal, conversation, judge) for goal in _get_checks(journey)]),
    )


def _get_checks(journey: Journey) -> list[Goal]:
    return [goal for goal in journey.goals if goal.type == "check"]


async def _confirm_check(goal: Goal, conversation: JourneyConversation, judge: TextJudge) -> bool | None:
    seen = conversation.last_said if goal.scope == "response" else conversation.transcript
    return await judge.confirms_check(goal.check, seen)


def _iter_reached_widgets(goals: Sequence[Goal], widgets: Sequence[JsonObject]) -> Iterator[str]:
    """Each widget serves one goal."""
    left = list(widgets)
    for goal in goals:
        key, value = goal.identifier or ("", "")
        for at, widget in enumerate(left):
            if key in widget and str(widget[key]) == value:
                del left[at]
                yield goal.name
                break
