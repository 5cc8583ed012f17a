"""The role of a simulated user in one case: its plan, its persona, and the rules that end the conversation.

The rules follow the framework that the case comes from: Google ADK 2.3.0 and tRPC-Agent-Go for scenarios,
and watsonx Orchestrate 1.6.9 for stories. docs/conformance.md lists the differences.
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
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.llm.sample_votes import UnparsableAnswerError


class Behavior(BaseModel):
    """A behavior as in Google ADK's `UserPersona`. Templates of ADK use its fields and methods by name."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = ""
    description: str = ""
    behavior_instructions: tuple[str, ...] = Field(default=(), strict=False)
    violation_rubrics: tuple[str, ...] = Field(default=(), strict=False)

    def get_behavior_instructions_str(self) -> str:
        """Return the instructions as a bulleted list."""
        return _format_list(self.behavior_instructions)

    def get_violation_rubrics_str(self) -> str:
        """Return the violations as a bulleted list."""
        return _format_list(self.violation_rubrics)


def _format_list(lines: Sequence[str]) -> str:
    return "\n".join(f"  * {line}" for line in lines)


@frozen
class Persona:
    """A kind of user, described for the model."""

    description: str
    habits: tuple[str, ...] = ()
    """Sentences about what such a user does and does not do."""
    id: str = field(default="", compare=False)
    own: tuple[Behavior, ...] = field(default=(), compare=False)
    """Behaviors that the persona's author wrote; their sentences are among the habits, too."""

    def __str__(self) -> str:
        """Return the description and the habits as the prompt shows them."""
        return "\n".join([self.description, *(f"- {habit}" for habit in self.habits)])

    @property
    def behaviors(self) -> tuple[Behavior, ...]:
        """Return the written behaviors, else the habits as behaviors, for Google ADK's templates."""
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
        """Return the persona, with the behaviors' sentences added to the habits."""
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
    """Read the personas of a YAML, TOML or JSON file. Return them by name, with the built-in ones.

    A persona of the file replaces the built-in one of the same name.

    Raises:
        InvalidInputError: the file cannot be read, or is invalid. Lists every problem.
    """
    document = read_config_document(path, shown_as)
    try:
        configs = _FILE.validate_python(document.value)
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=shown_as, position=document.find_position)
        ) from None
    return {**BUILT_IN, **{name: config.to_persona() for name, config in configs.items()}}


class UnknownPersonaError(ValueError):
    """Error for a case that names an unknown persona, or describes a persona in an invalid form."""


def resolve_persona(value: str | Mapping[str, Any] | None, known: Mapping[str, Persona]) -> Persona | None:
    """Return the persona that a scenario names or describes; None for a scenario without a persona.

    Raises:
        UnknownPersonaError: the name is unknown, or the description is invalid.
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
        key_path = ".".join(map(str, first["loc"]))
        raise UnknownPersonaError(f"the persona's `{key_path}` is wrong: {first['msg']}") from None


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
    """One parsed message of the model that simulates the user."""

    text: str
    goal: Literal["", "satisfied", "failed", "open"] = ""
    """Status of the goal if the model answered with an object, else ""."""


@frozen
class UserRole:
    """Instructions for a simulated user, and the conditions that end the conversation."""

    plan: str
    prompt: Literal["user_scenario", "user_story"]
    opening: str = ""
    """First message; "" if the model writes it."""
    signal: str = ADK_SIGNAL
    """Text with which the model ends the conversation; "" if there is none."""
    is_over: Callable[[str, str], bool] = lambda text, signal: signal.lower() in text.lower()
    """Predicate: True if a message (first argument) contains the signal (second argument)."""
    ends_when_stuck: bool = False
    """True if three similar messages in a row end the conversation."""
    max_turns: int = 20
    """Greatest number of the user's messages; -1 for no limit."""
    persona: Persona | None = None
    script: tuple[str, ...] | None = None
    """All messages after the opening; None if the model writes them."""


def build_user_role(case: EvalCase, personas: Mapping[str, Persona], max_turns: int) -> UserRole | None:
    """Return the role of a case's simulated user; None if the case has no scenario.

    `max_turns` is the limit of the user's messages for a scenario without its own limit.

    Raises:
        UnknownPersonaError: the scenario's persona is unknown or invalid.
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
    role = UserRole(scenario.conversation_plan, "user_scenario", scenario.starting_prompt, max_turns=limit)
    if scenario.stop_signal is None:
        return replace(role, persona=persona)
    return replace(role, persona=persona, signal=scenario.stop_signal.strip(), is_over=_is_signal)


def apply_story(case: EvalCase) -> EvalCase:
    """Return the case with its story as a scenario for a simulated user.

    A case is returned as it is if it has no story, has not exactly one turn (the starting sentence), or has
    written messages of the user (`user_prompts`).
    """
    journey = case.journey
    has_script = "user_prompts" in case.native.get("orchestrate", {})
    if journey is None or not journey.story or len(case.turns) != 1 or has_script:
        return case
    opening = case.turns[0].user.text
    return replace(case, turns=(), scenario=Scenario(opening, journey.story, max_turns=journey.max_turns))


def _contains_word(text: str, signal: str) -> bool:
    """Return True if the signal is a whole word of the text, in the same case: SEND does not match END."""
    return re.search(rf"(?<!\w){re.escape(signal)}(?!\w)", text) is not None


def _is_signal(text: str, signal: str) -> bool:
    return bool(signal) and text.strip().casefold() == signal.casefold()


def parse_simulated_message(text: str) -> SimulatedMessage:
    """Parse an answer of the model: a text, or a JSON object with `content` and `goal_status`.

    Raises:
        UnparsableAnswerError: the message is empty although the goal is neither satisfied nor failed, or
            contains the agent's side of the conversation too.
    """
    message = _parse_structured(text) or SimulatedMessage(text.strip())
    if not message.text and message.goal not in {"satisfied", "failed"}:
        raise UnparsableAnswerError("the message is empty")
    if _OTHER_SIDE.search(message.text):
        raise UnparsableAnswerError("it speaks for the agent too")
    return message


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


def should_end(role: UserRole, message: SimulatedMessage, failures: int, earlier: Sequence[str]) -> bool:
    """Return True if the conversation ends instead of sending `message`.

    `failures` is the number of consecutive messages, this one included, that report a failed goal. `earlier`
    are the user's previous messages.
    """
    if message.goal == "satisfied" or failures >= _MOST_FAILURES:
        return True
    if role.signal and role.is_over(message.text, role.signal):
        return True
    last = earlier[-_MOST_REPEATS:]
    return (
        role.ends_when_stuck
        and len(last) == _MOST_REPEATS
        and all(_is_similar(last[0], each) for each in last)
    )


def _is_similar(one: str, other: str) -> bool:
    """Return True if the sets of words are nearly equal: their Jaccard index exceeds 0.98."""
    if one == other:
        return True
    first, second = (set(_WORD.findall(text.lower())) for text in (one, other))
    return bool(first | second) and len(first & second) / len(first | second) > _SIMILAR
