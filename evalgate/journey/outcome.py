"""What a conversation reached of its journey, and whether in the order that the journey asks for.

The rules are those of watsonx Orchestrate's evaluation framework 1.6.9: goals of tool calls come first, in
the order in which they were reached, then widgets, then texts, both in the order of the file.
"""

from collections.abc import Iterator, Mapping, Sequence

from evalgate.frozen import frozen
from evalgate.journey.calls import CallBook, goals_of, keep_book
from evalgate.journey.conversation import Conversation, conversation_of
from evalgate.journey.texts import TextFinding, TextJudge, find_texts
from evalgate.model import CaseRun, EvalCase, Goal, Journey, JsonObject

_NO_GOALS_REACHED = "no goal was reached"


@frozen
class Outcome:
    """What became of every goal."""

    order: Mapping[str, tuple[str, ...]]
    calls: CallBook
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

    def failure(self, *, doubts_count: bool) -> str:
        """Why the journey is no success; "" when it is one. `doubts_count`: what is undecided is reached."""
        ordering = [*self.calls.reached, *self.widgets, *self._texts_reached(doubts_count=doubts_count)]
        place = {name: at for at, name in enumerate(ordering)}
        if not ordering:
            return _NO_GOALS_REACHED
        return next(self._failures(place, doubts_count=doubts_count), "")

    def _texts_reached(self, *, doubts_count: bool) -> Iterator[str]:
        """A name that stands twice has its first place, and is reached when either goal is."""
        reached = {
            text.goal.name
            for text in self.texts
            if text.is_reached or (doubts_count and text.is_reached is None)
        }
        yield from (name for name in dict.fromkeys(text.goal.name for text in self.texts) if name in reached)

    def _failures(self, place: Mapping[str, int], *, doubts_count: bool) -> Iterator[str]:
        for name, later in self.order.items():
            for each in (name, *later):
                if each not in place:
                    yield f"the goal `{each}` was not reached"
            for child in later:
                if name in place and child in place and place[name] >= place[child]:
                    yield f"the goal `{child}` must come after `{name}`"
        if not all(check or (doubts_count and check is None) for check in self.checks):
            yield "a check does not hold"

    def completion(self) -> float | None:
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


async def outcome_of(case: EvalCase, run: CaseRun, journey: Journey, judge: TextJudge) -> Outcome:
    """Hold a run's whole conversation against the journey."""
    conversation = conversation_of(case, run)
    interactions = goals_of(journey, "interaction")
    return Outcome(
        order=journey.order,
        calls=keep_book(journey, conversation.calls),
        widgets=tuple(_widgets_reached(interactions, conversation.widgets)),
        widgets_expected=sum(goal.type == "interaction" for goal in journey.goals),
        texts=await find_texts(journey, conversation.texts, judge),
        checks=tuple([await _affirmed(goal, conversation, judge) for goal in _checks(journey)]),
    )


def _checks(journey: Journey) -> list[Goal]:
    return [goal for goal in journey.goals if goal.type == "check"]


async def _affirmed(goal: Goal, conversation: Conversation, judge: TextJudge) -> bool | None:
    seen = conversation.last_said if goal.scope == "response" else conversation.transcript
    return await judge.affirms(goal.check, seen)


def _widgets_reached(goals: Sequence[Goal], widgets: Sequence[JsonObject]) -> Iterator[str]:
    """Each widget serves one goal."""
    left = list(widgets)
    for goal in goals:
        key, value = goal.identifier or ("", "")
        for at, widget in enumerate(left):
            if key in widget and str(widget[key]) == value:
                del left[at]
                yield goal.name
                break
