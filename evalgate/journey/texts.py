"""The texts of one conversation, held against a journey's goals.

Whether a text says what it should is for a judge to tell. Without one, keywords are looked up, equal texts
are equal, and the rest is left open.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Protocol

from evalgate.frozen import frozen
from evalgate.model import Goal, Journey

_BLANKS = re.compile(r"\s+")


class TextJudge(Protocol):
    """Somebody who understands texts. None: cannot tell."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Whether all of `keywords`, at least one, occur in `text`."""
        ...

    async def says(self, expected: str, text: str) -> bool | None:
        """Whether `text` says what `expected` says."""
        ...

    async def affirms(self, check: str, transcript: str) -> bool | None:
        """Whether `check` is true of what was said."""
        ...


@frozen
class LiteralJudge:
    """Compares letters: any case, any blanks. Knows nothing of meaning."""

    knows_only_equal: bool = True
    """Texts that differ may still mean the same: leave that open. False: they say different things."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Each stands in the text, letter by letter."""
        plain = _plain(text)
        return all(_plain(keyword) in plain for keyword in keywords)

    async def says(self, expected: str, text: str) -> bool | None:
        """True when equal."""
        if _plain(expected) == _plain(text):
            return True
        return None if self.knows_only_equal else False

    async def affirms(self, check: str, transcript: str) -> bool | None:
        """Cannot tell."""
        del check, transcript
        return None


def _plain(text: str) -> str:
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


async def find_texts(journey: Journey, texts: Sequence[str], judge: TextJudge) -> tuple[TextFinding, ...]:
    """What became of every goal that asks for a text, a name that stands twice included.

    A single text must meet all that a goal asks.
    """
    goals = [goal for goal in journey.goals if goal.type == "text"]
    return tuple([await _finding(goal, texts, judge) for goal in goals])


async def _finding(goal: Goal, texts: Sequence[str], judge: TextJudge) -> TextFinding:
    has_keywords = not goal.keywords
    verdicts: set[bool | None] = set()
    for text in texts:
        if goal.keywords and not await judge.holds_keywords(goal.keywords, text):
            continue
        has_keywords = True
        verdicts.add(await _says(goal, text, judge))
    is_open = None in verdicts and True not in verdicts
    is_reached = True if True in verdicts else None if is_open else False
    if is_open and goal.keywords:
        is_reached = True  # the keywords stand for the response
    return TextFinding(goal, is_reached, has_keywords if goal.keywords else None, not is_open)


async def _says(goal: Goal, text: str, judge: TextJudge) -> bool | None:
    if goal.response is not None:
        return await judge.says(goal.response, text)
    return bool(goal.keywords)  # a goal that asks for nothing is never reached
