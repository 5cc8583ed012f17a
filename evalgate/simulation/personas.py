"""Who the user is: Google ADK's three personas in our words, a case's own, or those of a file."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalgate.errors import InvalidInput
from evalgate.frozen import frozen
from evalgate.reading.configfile import read_config_document
from evalgate.reading.validation import problems_of


class Behavior(BaseModel):
    """As in Google ADK's `UserPersona`, which its templates name the parts of."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = ""
    description: str = ""
    behavior_instructions: tuple[str, ...] = Field(default=(), strict=False)
    violation_rubrics: tuple[str, ...] = Field(default=(), strict=False)

    def get_behavior_instructions_str(self) -> str:
        """What such a user does, as a list."""
        return _listed(self.behavior_instructions)

    def get_violation_rubrics_str(self) -> str:
        """What such a user does not do, as a list."""
        return _listed(self.violation_rubrics)


def _listed(lines: Sequence[str]) -> str:
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


class _OwnPersona(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = ""
    description: str
    habits: tuple[str, ...] = Field(default=(), strict=False)
    behaviors: tuple[Behavior, ...] = Field(default=(), strict=False)

    def as_ours(self) -> Persona:
        """The persona."""
        habits = (*self.habits, *_sentences(self.behaviors))
        return Persona(self.description, habits, self.id, self.behaviors)


def _sentences(behaviors: Sequence[Behavior]) -> list[str]:
    return [
        text
        for behavior in behaviors
        for text in (behavior.description, *behavior.behavior_instructions)
        if text.strip()
    ]


_FILE: TypeAdapter[dict[str, _OwnPersona]] = TypeAdapter(dict[str, _OwnPersona])


def read_personas(path: Path, shown_as: str) -> Mapping[str, Persona]:
    """The personas of a YAML, TOML or JSON file, by name, beside ours.

    Raises:
        InvalidInput: with every problem of the file.
    """
    document = read_config_document(path, shown_as)
    try:
        found = _FILE.validate_python(document.value)
    except ValidationError as error:
        raise InvalidInput(problems_of(error, file=shown_as, position=document.position)) from None
    return {**BUILT_IN, **{name: own.as_ours() for name, own in found.items()}}


class UnknownPersona(ValueError):
    """A case names a persona that nobody describes, or describes one in an unknown form."""


def persona_of(value: str | Mapping[str, Any] | None, known: Mapping[str, Persona]) -> Persona | None:
    """The persona that a scenario names or describes; None when it does neither.

    Raises:
        UnknownPersona: there is no such persona.
    """
    if value is None:
        return None
    if isinstance(value, str):
        if value not in known:
            raise UnknownPersona(f"the persona `{value}` is unknown; known: {', '.join(sorted(known))}")
        return known[value]
    try:
        return _OwnPersona.model_validate(value).as_ours()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UnknownPersona(f"the persona's `{place}` is wrong: {first['msg']}") from None
