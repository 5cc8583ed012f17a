"""The role that a simulated user plays in one case, and its persona.

The rules are those of the case's source: Google ADK 2.3.0 and tRPC-Agent-Go (scenarios), watsonx Orchestrate
1.6.9 (stories), but for what docs/conformance.md lists.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, Scenario
from evalgate.documents.config_file import read_config_document
from evalgate.documents.validation import translate_validation_error
from evalgate.llm.sampling import UnparsableAnswerError


class Behavior(BaseModel):
    """As in Google ADK's `UserPersona`, which its templates name the parts of."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = ""
    description: str = ""
    behavior_instructions: tuple[str, ...] = Field(default=(), strict=False)
    violation_rubrics: tuple[str, ...] = Field(default=(), strict=False)

    def get_behavior_instructions_str(self) -> str:
        """What such a user does, as a list."""
        return _format_list(self.behavior_instructions)

    def get_violation_rubrics_str(self) -> str:
        """What such a user does not do, as a list."""
        return _format_list(self.violation_rubrics)


def _format_list(lines: Sequence[str]) -> str:
    return "\n".join(f"  * {line}" for line in lines)


@frozen
class Persona:
    """A kind of user."""

    description: str
    habits: tuple[str, ...] = ()
    """What such a user does and does not do, one sentence each."""
    id: str = field(default="", compare=False)
    own: tuple[Behavior, ...] = field(default=(), compare=False)
    """What the habits were taken from, where they were."""

    def __str__(self) -> str:
        """As the model is told."""
        return "\n".join([self.description, *(f"- {habit}" for habit in self.habits)])

    @property
    def behaviors(self) -> tuple[Behavior, ...]:
        """The same, as Google ADK's templates read it."""
        return self.own or tuple(
            Behavior(name=habit, description=habit, behavior_instructions=(habit,)) for habit in self.habits
        )


_DETAILS_AT_ONCE = "Asks for one goal of the plan at a time, with all the details that it needs."
_DETAILS_WHEN_ASKED = "Asks for one goal of the plan at a time, and gives no detail before it is asked for."
_RELEVANT_ANSWERS = "Answers only questions that serve a goal; what the plan does not say is not known."
_ALL_ANSWERS = "Answers every question; says so when the plan does not tell."
_ENDS_AT_ONCE = "Ends the conversation when all goals are confirmed, or as soon as the agent fails."
_NO_CORRECTIONS = "Corrects nothing: ends the conversation when the agent says something wrong."
_CASUAL = "Talks casually, as people do, without long texts."

BUILT_IN: Mapping[str, Persona] = {
    "EXPERT": Persona(
        "You know exactly what you want, and the agent is a tool to get it with few words.",
        (
            _DETAILS_AT_ONCE,
            _RELEVANT_ANSWERS,
            "Corrects the agent when it is wrong, and asks it to mend what it did.",
            "Helps the agent over one failure, and over no second.",
            "Ends the conversation when all goals are confirmed, or at the second failure of the agent.",
            "Talks in clear, technical words, without slang and small talk.",
        ),
    ),
    "NOVICE": Persona(
        "You do not fully understand your own problem, and rely on the agent to lead you.",
        (_DETAILS_WHEN_ASKED, _NO_CORRECTIONS, _ALL_ANSWERS, _ENDS_AT_ONCE, _CASUAL),
    ),
    "EVALUATOR": Persona(
        "You find out whether the agent can help with the goals of the plan.",
        (_DETAILS_AT_ONCE, _RELEVANT_ANSWERS, _ENDS_AT_ONCE, _NO_CORRECTIONS, _CASUAL),
    ),
}


class _PersonaConfig(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = ""
    description: str
    habits: tuple[str, ...] = Field(default=(), strict=False)
    behaviors: tuple[Behavior, ...] = Field(default=(), strict=False)

    def to_persona(self) -> Persona:
        """The persona."""
        habits = (*self.habits, *_list_sentences(self.behaviors))
        return Persona(self.description, habits, self.id, self.behaviors)


def _list_sentences(behaviors: Sequence[Behavior]) -> list[str]:
    return [
        text
        for behavior in behaviors
        for text in (behavior.description, *behavior.behavior_instructions)
        if text.strip()
    ]


_FILE: TypeAdapter[dict[str, _PersonaConfig]] = TypeAdapter(dict[str, _PersonaConfig])


def read_personas(path: Path, shown_as: str) -> Mapping[str, Persona]:
    """The personas of a YAML, TOML or JSON file, by name, beside ours.

    Raises:
        InvalidInputError: with every problem of the file.
    """
    document = read_config_document(path, shown_as)
    try:
        found = _FILE.validate_python(document.value)
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=shown_as, position=document.find_position)
        ) from None
    return {**BUILT_IN, **{name: own.to_persona() for name, own in found.items()}}


class UnknownPersonaError(ValueError):
    """A case names a persona that nobody describes, or describes one in an unknown form."""


def resolve_persona(value: str | Mapping[str, Any] | None, known: Mapping[str, Persona]) -> Persona | None:
    """The persona that a scenario names or describes; None when it does neither.

    Raises:
        UnknownPersonaError: there is no such persona.
    """
    if value is None:
        return None
    if isinstance(value, str):
        if value not in known:
            raise UnknownPersonaError(f"the persona `{value}` is unknown; known: {', '.join(sorted(known))}")
        return known[value]
    try:
        return _PersonaConfig.model_validate(value).to_persona()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UnknownPersonaError(f"the persona's `{place}` is wrong: {first['msg']}") from None


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
class SimulatedMessage:
    """What the model made of its turn."""

    text: str
    goal: Literal["", "satisfied", "failed", "open"] = ""
    """What it says of its goal, where it answers with an object."""


@frozen
class UserRole:
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


def build_user_role(case: EvalCase, personas: Mapping[str, Persona], max_turns: int) -> UserRole | None:
    """The part of a case that somebody must play; None when it is written, or says not how.

    Raises:
        UnknownPersonaError: its persona is unknown.
    """
    scenario = case.scenario
    if scenario is None:
        return None
    limit = max_turns if scenario.max_turns is None else scenario.max_turns
    if case.journey is not None:
        return UserRole(
            scenario.conversation_plan,
            "user_story",
            scenario.starting_prompt,
            STORY_SIGNAL,
            _contains_word,
            ends_when_stuck=True,
            max_turns=limit,
            script=scenario.script,
        )
    persona = resolve_persona(scenario.user_persona, personas)
    part = UserRole(scenario.conversation_plan, "user_scenario", scenario.starting_prompt, max_turns=limit)
    if scenario.stop_signal is None:
        return replace(part, persona=persona)
    return replace(part, persona=persona, signal=scenario.stop_signal.strip(), is_over=_is_signal)


def apply_story(case: EvalCase) -> EvalCase:
    """The case with its story to be played, where it has one and no script beyond the starting sentence."""
    journey = case.journey
    has_script = "user_prompts" in case.native.get("orchestrate", {})
    if journey is None or not journey.story or len(case.turns) != 1 or has_script:
        return case
    opening = case.turns[0].user.text
    return replace(case, turns=(), scenario=Scenario(opening, journey.story, max_turns=journey.max_turns))


def _contains_word(text: str, signal: str) -> bool:
    """Whether the signal stands in the text as a word, in its own letters: SEND is no END."""
    return re.search(rf"(?<!\w){re.escape(signal)}(?!\w)", text) is not None


def _is_signal(text: str, signal: str) -> bool:
    return bool(signal) and text.strip().casefold() == signal.casefold()


def parse_simulated_message(text: str) -> SimulatedMessage:
    """What the model says: a text, or an object with `content` and `goal_status`.

    Raises:
        UnparsableAnswerError: it is empty, or speaks for the agent too.
    """
    found = _parse_structured(text) or SimulatedMessage(text.strip())
    if not found.text and found.goal not in {"satisfied", "failed"}:
        raise UnparsableAnswerError("the message is empty")
    if _OTHER_SIDE.search(found.text):
        raise UnparsableAnswerError("it speaks for the agent too")
    return found


def _parse_structured(text: str) -> SimulatedMessage | None:
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
    return SimulatedMessage(value["content"].strip(), goal)


def should_end(part: UserRole, said: SimulatedMessage, failures: int, earlier: Sequence[str]) -> bool:
    """Whether the conversation is over instead of `said`.

    `failures`: how often in a row, this time included, the goal was said to have failed; `earlier`: what was
    said before.
    """
    if said.goal == "satisfied" or failures >= _MOST_FAILURES:
        return True
    if part.signal and part.is_over(said.text, part.signal):
        return True
    last = earlier[-_MOST_REPEATS:]
    return (
        part.ends_when_stuck
        and len(last) == _MOST_REPEATS
        and all(_is_similar(last[0], each) for each in last)
    )


def _is_similar(one: str, other: str) -> bool:
    """Whether nearly all words are the same."""
    if one == other:
        return True
    first, second = (set(_WORD.findall(text.lower())) for text in (one, other))
    return bool(first | second) and len(first & second) / len(first | second) > _SIMILAR
