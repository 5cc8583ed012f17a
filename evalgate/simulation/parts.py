"""The part that a simulated user plays in one case, and when it is over.

The rules are those of the case's source: Google ADK 2.3.0 and tRPC-Agent-Go (scenarios), watsonx Orchestrate
1.6.9 (stories), but for what docs/conformance.md lists.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from evalgate.frozen import frozen
from evalgate.judge.sampling import Unparsable
from evalgate.model import EvalCase, Scenario
from evalgate.simulation.personas import Persona, persona_of

ADK_SIGNAL = "</finished>"
STORY_SIGNAL = "END"
_MOST_REPEATS = 3
_MOST_FAILURES = 3
_SIMILAR = 0.98
_WORD = re.compile(r"\w+")
_OTHER_SIDE = re.compile(
    r"^\s*(?:\*\*)?(?:assistant|agent|ai agent|bot)(?:\*\*)?\s*:", re.IGNORECASE | re.MULTILINE
)


@frozen
class Said:
    """What the model made of its turn."""

    text: str
    goal: Literal["", "satisfied", "failed", "open"] = ""
    """What it says of its goal, where it answers with an object."""


@frozen
class Part:
    """What a simulated user is told, and what ends the conversation."""

    plan: str
    prompt: Literal["user_scenario", "user_story"]
    opening: str = ""
    """What is said first; "": the model begins."""
    signal: str = ADK_SIGNAL
    """What the model says when it is done; "": it never is."""
    is_over: Callable[[str, str], bool] = lambda text, signal: signal.lower() in text.lower()
    """Whether a message with this signal ends the conversation."""
    ends_when_stuck: bool = False
    """Whether three messages of one kind end it."""
    max_turns: int = 20
    """-1: no limit."""
    persona: Persona | None = None
    script: tuple[str, ...] | None = None
    """What is said after the opening, and then nothing more; None: whatever the model says."""


def part_of(case: EvalCase, personas: Mapping[str, Persona], max_turns: int) -> Part | None:
    """The part of a case that somebody must play; None when it is written, or says not how.

    Raises:
        UnknownPersona: its persona is unknown.
    """
    scenario = case.scenario
    if scenario is None:
        return None
    limit = max_turns if scenario.max_turns is None else scenario.max_turns
    if case.journey is not None:
        return Part(
            scenario.conversation_plan,
            "user_story",
            scenario.starting_prompt,
            STORY_SIGNAL,
            _holds_word,
            ends_when_stuck=True,
            max_turns=limit,
            script=scenario.script,
        )
    persona = persona_of(scenario.user_persona, personas)
    part = Part(scenario.conversation_plan, "user_scenario", scenario.starting_prompt, max_turns=limit)
    if scenario.stop_signal is None:
        return replace(part, persona=persona)
    return replace(part, persona=persona, signal=scenario.stop_signal.strip(), is_over=_is_signal)


def with_stories(case: EvalCase) -> EvalCase:
    """The case with its story to be played, where it has one and no script beyond the starting sentence."""
    journey = case.journey
    has_script = "user_prompts" in case.native.get("orchestrate", {})
    if journey is None or not journey.story or len(case.turns) != 1 or has_script:
        return case
    opening = case.turns[0].user.text
    return replace(case, turns=(), scenario=Scenario(opening, journey.story, max_turns=journey.max_turns))


def _holds_word(text: str, signal: str) -> bool:
    """Whether the signal stands in the text as a word, in its own letters: SEND is no END."""
    return re.search(rf"(?<!\w){re.escape(signal)}(?!\w)", text) is not None


def _is_signal(text: str, signal: str) -> bool:
    return bool(signal) and text.strip().casefold() == signal.casefold()


def read(text: str) -> Said:
    """What the model says: a text, or an object with `content` and `goal_status`.

    Raises:
        Unparsable: it is empty, or speaks for the agent too.
    """
    found = _structured(text) or Said(text.strip())
    if not found.text and found.goal not in {"satisfied", "failed"}:
        raise Unparsable("the message is empty")
    if _OTHER_SIDE.search(found.text):
        raise Unparsable("it speaks for the agent too")
    return found


def _structured(text: str) -> Said | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        return None
    status = str(value.get("goal_status", "")).strip().lower()
    goal: Literal["satisfied", "failed", "open"] = "open"
    if status == "satisfied":
        goal = "satisfied"
    elif status == "failed":
        goal = "failed"
    return Said(value["content"].strip(), goal)


def ends(part: Part, said: Said, failures: int, earlier: Sequence[str]) -> bool:
    """Whether the conversation is over instead of `said`.

    `failures`: how often in a row, this time included, the goal was said to have failed; `earlier`: what was
    said before.
    """
    if said.goal == "satisfied" or failures >= _MOST_FAILURES:
        return True
    if part.signal and part.is_over(said.text, part.signal):
        return True
    last = earlier[-_MOST_REPEATS:]
    return part.ends_when_stuck and len(last) == _MOST_REPEATS and all(_alike(last[0], each) for each in last)


def _alike(one: str, other: str) -> bool:
    """Whether nearly all words are the same."""
    if one == other:
        return True
    first, second = (set(_WORD.findall(text.lower())) for text in (one, other))
    return bool(first | second) and len(first & second) / len(first | second) > _SIMILAR
