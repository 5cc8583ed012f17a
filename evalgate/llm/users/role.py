"""Build the role of a case's simulated user: plan, persona, and the conditions that end the conversation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, Scenario
from evalgate.llm.users.conversation_end import contains_text, contains_word, is_signal_alone
from evalgate.llm.users.personas import Persona, resolve_persona

ADK_SIGNAL = "</finished>"
STORY_SIGNAL = "END"


@frozen
class UserRole:
    """Instructions for a simulated user, and the conditions that end the conversation."""

    plan: str
    """Description of the user's goals, for the model."""
    prompt: Literal["user_scenario", "user_story"]
    """Name of evalgate's prompt template for this role, unless the thresholds file sets another prompt."""
    opening: str = ""
    """First message; "" if the model writes it."""
    signal: str = ADK_SIGNAL
    """Text with which the model ends the conversation; "" if there is no such text."""
    is_over: Callable[[str, str], bool] = contains_text
    """Function that gets a message and the signal, and returns True if the message ends the conversation."""
    ends_when_stuck: bool = False
    """True if the conversation ends after three similar messages in a row."""
    max_turns: int = 20
    """Largest number of the user's messages; -1 for no limit."""
    persona: Persona | None = None
    script: tuple[str, ...] | None = None
    """All messages after the opening; None if the model writes them."""


def build_user_role(case: EvalCase, personas: Mapping[str, Persona], max_turns: int) -> UserRole | None:
    """Build the role of a case's simulated user; return None if the case has no scenario.

    `max_turns` is the largest number of the user's messages if the scenario does not limit it.

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
            contains_word,
            ends_when_stuck=True,
            max_turns=limit,
            script=scenario.script,
        )
    persona = resolve_persona(scenario.user_persona, personas)
    role = UserRole(scenario.conversation_plan, "user_scenario", scenario.starting_prompt, max_turns=limit)
    if scenario.stop_signal is None:
        return replace(role, persona=persona)
    return replace(role, persona=persona, signal=scenario.stop_signal.strip(), is_over=is_signal_alone)


def apply_story(case: EvalCase) -> EvalCase:
    """Convert the story of a watsonx Orchestrate case to a scenario for a simulated user.

    A story is a text about the user's goals. The message of the case's only turn becomes the opening, and the
    turn is removed. Return the case unchanged if it has no story, if it does not have exactly one turn, or if
    its user messages are already written in the eval set (`user_prompts`).
    """
    journey = case.journey
    has_script = "user_prompts" in case.native.get("orchestrate", {})
    if journey is None or not journey.story or len(case.turns) != 1 or has_script:
        return case
    opening = case.turns[0].user.text
    return replace(case, turns=(), scenario=Scenario(opening, journey.story, max_turns=journey.max_turns))
