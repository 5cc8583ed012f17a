"""Parse a model's answer to a yes-or-no question."""

import json
import re

from evalgate.core.frozen import frozen
from evalgate.llm.client import AnswerSchema, ModelAnswer
from evalgate.llm.sampling import UnparsableAnswerError

VERDICT_SCHEMA = AnswerSchema(
    "verdict",
    {
        "type": "object",
        "properties": {"verdict": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["verdict", "reason"],
        "additionalProperties": False,
    },
)
_YES = frozenset({"true", "yes", "pass", "passed"})
_NO = frozenset({"false", "no", "fail", "failed"})
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*(?:```)?", re.DOTALL | re.IGNORECASE)


@frozen
class TextVerdict:
    """Verdict of a model, True for yes, with its reason."""

    verdict: bool
    reason: str = ""


def parse_verdict(answer: ModelAnswer) -> TextVerdict:
    """Parse `{"verdict": true, "reason": "…"}`, or a text that begins with a word such as `yes` or `failed`.

    Both forms may be in a code block. The reason in a text is everything after the first line.

    Raises:
        UnparsableAnswerError: the answer has neither form.
    """
    text = answer.text.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    if not text.startswith("{"):
        word, _, reason = text.partition("\n")
        return TextVerdict(
            _parse_boolean(word.split()[0].strip(".,:;*!") if word.split() else ""), reason.strip()
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UnparsableAnswerError("it is no JSON") from None
    reason = value.get("reason", "")
    return TextVerdict(_parse_boolean(value.get("verdict")), reason if isinstance(reason, str) else "")


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _YES | _NO:
        return word in _YES
    raise UnparsableAnswerError("it gives no verdict")
