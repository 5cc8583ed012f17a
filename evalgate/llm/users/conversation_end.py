"""Parse the messages of a simulated user, and decide if a message ends the conversation.

The rules follow the framework that the case comes from: Google ADK 2.3.0 and tRPC-Agent-Go for scenarios,
and watsonx Orchestrate 1.6.9 for stories. docs/conformance.md lists the differences.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from evalgate.core.frozen import frozen
from evalgate.llm.sampling import UnparsableAnswerError

if TYPE_CHECKING:
    from evalgate.llm.users.role import UserRole

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
    """Status of the user's goal: `satisfied`, `failed` or `open`; "" if the answer was a plain text."""


def parse_simulated_message(text: str) -> SimulatedMessage:
    """Parse an answer of the model: a text, or a JSON object with `content` and `goal_status`.

    An empty message is accepted if the goal is satisfied or failed.

    Raises:
        UnparsableAnswerError: the message is empty in any other case, or it contains the agent's side of the
            conversation, too.
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


def should_end(role: "UserRole", message: SimulatedMessage, failures: int, earlier: Sequence[str]) -> bool:
    """Return True if the conversation ends before `message`, so that the message is not sent.

    The conversation ends:

    - if the message reports a satisfied goal,
    - if three messages in a row report a failed goal,
    - if the role's `is_over` finds the stop signal in the message,
    - in roles with `ends_when_stuck`, if the last three earlier messages are similar to each other.

    Args:
        role: Role of the user, with its stop signal.
        message: New message of the user.
        failures: Number of messages in a row, with `message` as the last, that report a failed goal.
        earlier: Previous messages of the user.
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
    """Return True if two texts are equal, or the Jaccard index of their sets of words exceeds 0.98."""
    if one == other:
        return True
    first, second = (set(_WORD.findall(text.lower())) for text in (one, other))
    return bool(first | second) and len(first & second) / len(first | second) > _SIMILAR


# --- signals ------------------------------------------------------------------------------------------------


def contains_text(text: str, signal: str) -> bool:
    """Return True if the message contains the signal. Upper and lower case are equal."""
    return signal.lower() in text.lower()


def contains_word(text: str, signal: str) -> bool:
    """Return True if the message has the signal as a whole word. Upper and lower case are different."""
    return re.search(rf"(?<!\w){re.escape(signal)}(?!\w)", text) is not None


def is_signal_alone(text: str, signal: str) -> bool:
    """Return True if the message is the signal and nothing else. Upper and lower case are equal."""
    return bool(signal) and text.strip().casefold() == signal.casefold()
