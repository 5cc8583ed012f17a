"""A judge of texts that is a model. What the letters settle, it is not asked."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from evalgate.frozen import frozen
from evalgate.journey.texts import LiteralJudge
from evalgate.judge.asking import AnswerSchema, ChatMessage, ModelAnswer, ModelClient, ModelRequest
from evalgate.judge.prompting import prompt
from evalgate.judge.sampling import Unparsable, take_samples
from evalgate.model import JsonObject

PROMPTS = ("orchestrate_keywords", "orchestrate_text", "orchestrate_check")
_VERDICT = AnswerSchema(
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
_LETTERS = LiteralJudge()


@frozen
class Opinion:
    """What one answer says."""

    verdict: bool
    reason: str = ""


@dataclass(slots=True)
class ModelTextJudge:
    """Reads the texts of one conversation. See `evalgate.journey.texts.TextJudge`."""

    client: ModelClient
    samples: int = 1
    """Answers to each question; the majority counts, and a tie is a no."""
    context: str = ""
    """What the user said first."""
    told: list[JsonObject] = field(default_factory=list)
    """Every question that was asked, with its answers, for the record."""

    async def holds_keywords(self, keywords: Sequence[str], text: str) -> bool | None:
        """Whether all occur, as they are or as close variants.

        Raises:
            JudgeFailed: the model does not say.
        """
        if await _LETTERS.holds_keywords(keywords, text):
            return True
        filled = prompt(PROMPTS[0]).filled(keywords=list(keywords), text=text)
        return await self._asked(PROMPTS[0], filled, {"keywords": list(keywords)})

    async def says(self, expected: str, text: str) -> bool | None:
        """Whether the text says the same.

        Raises:
            JudgeFailed: the model does not say.
        """
        if await _LETTERS.says(expected, text):
            return True
        filled = prompt(PROMPTS[1]).filled(expected=expected, text=text, context=self.context)
        return await self._asked(PROMPTS[1], filled, {"expected": expected})

    async def affirms(self, check: str, transcript: str) -> bool | None:
        """Whether the check holds.

        Raises:
            JudgeFailed: the model does not say.
        """
        filled = prompt(PROMPTS[2]).filled(check=check, transcript=transcript)
        return await self._asked(PROMPTS[2], filled, {"check": check})

    async def _asked(self, name: str, text: str, about: JsonObject) -> bool:
        request = ModelRequest(
            (ChatMessage("user", text),), answer_schema=_VERDICT, prompt_version=prompt(name).version
        )
        samples = await take_samples(self.client, request, self.samples, _opinion)
        opinions = samples.need()
        ayes = sum(opinion.verdict for opinion in opinions)
        verdict = ayes > len(opinions) - ayes
        rows = samples.told(lambda opinion: (float(opinion.verdict), opinion.reason))
        self.told.append({**about, "verdict": verdict, "samples": rows})
        return verdict


def _opinion(answer: ModelAnswer) -> Opinion:
    """`{"verdict": true, "reason": "…"}`, in a code block or not, or a text that begins with yes or no."""
    text = answer.text.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    if not text.startswith("{"):
        word, _, reason = text.partition("\n")
        return Opinion(_verdict(word.split()[0].strip(".,:;*!") if word.split() else ""), reason.strip())
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Unparsable("it is no JSON") from None
    reason = value.get("reason", "")
    return Opinion(_verdict(value.get("verdict")), reason if isinstance(reason, str) else "")


def _verdict(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _YES | _NO:
        return word in _YES
    raise Unparsable("it gives no verdict")
