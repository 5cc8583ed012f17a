"""Define the personas of simulated users: built in, read from a file, or described in a scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.documents.config_file import read_config_document
from evalgate.documents.validation_errors import translate_validation_error


class Behavior(BaseModel):
    """A behavior of a persona. Its fields and methods have the names that Google ADK's templates use."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = ""
    description: str = ""
    behavior_instructions: tuple[str, ...] = Field(default=(), strict=False)
    violation_rubrics: tuple[str, ...] = Field(default=(), strict=False)

    def get_behavior_instructions_str(self) -> str:
        """Return the instructions as a bulleted list."""
        return _format_list(self.behavior_instructions)

    def get_violation_rubrics_str(self) -> str:
        """Return the rubrics of violations as a bulleted list."""
        return _format_list(self.violation_rubrics)


def _format_list(lines: Sequence[str]) -> str:
    return "\n".join(f"  * {line}" for line in lines)


@frozen
class Persona:
    """A kind of user, described in words for the model that simulates users."""

    description: str
    habits: tuple[str, ...] = ()
    """Sentences about what such a user does and does not do."""
    id: str = field(default="", compare=False)
    own: tuple[Behavior, ...] = field(default=(), compare=False)
    """Behaviors that the persona's file or scenario lists. `habits` contains their sentences, too."""

    def __str__(self) -> str:
        """Return the text for the prompt: the description, then each habit as a list item."""
        return "\n".join([self.description, *(f"- {habit}" for habit in self.habits)])

    @property
    def behaviors(self) -> tuple[Behavior, ...]:
        """Return the behaviors for Google ADK's templates: `own` or, if it is empty, one for each habit."""
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
        """Return the persona, with the sentences of its behaviors added to its habits."""
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
    """Return the personas in a YAML, TOML or JSON file, and the built-in personas, by name.

    A persona in the file replaces the built-in persona of the same name.

    Raises:
        InvalidInputError: the file cannot be read, or is invalid. The error lists every problem.
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
    """Error for a case with the name of an unknown persona, or with an invalid description of a persona."""


def resolve_persona(value: str | Mapping[str, Any] | None, known: Mapping[str, Persona]) -> Persona | None:
    """Return the persona that a scenario names or describes; None if `value` is None.

    `value` is a name in `known`, or an object that describes the persona.

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
