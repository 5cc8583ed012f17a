"""Answers as one JSON object: what the newer evaluators ask for, and what their scorers accept."""

import json
import math
from collections.abc import Mapping, Sequence

from evalgate.judge.asking import AnswerSchema, encodable
from evalgate.judge.sampling import Unparsable
from evalgate.trpcjudging.gotext import folded, trimmed
from evalgate.trpcjudging.scorecards import ItemScore, Scorecard, of_items

_FENCE = "```"


def looks_like_json(text: str) -> bool:
    """Whether an answer means to be JSON, well-formed or not."""
    return _unfenced(text).startswith(("{", "["))


def rubric_scores(text: str) -> Scorecard:
    """`{"rubricScores": [{"id", "score", "reason"}]}`, at least one, no id twice; their mean. See `checked`.

    Raises:
        Unparsable: it is something else.
    """
    found = _member(_object(text), "rubricScores")
    if not isinstance(found, list) or not found:
        raise Unparsable("`rubricScores` is missing")
    items = [_item(each) for each in found]
    ids = [item.id for item in items]
    if "" in ids:
        raise Unparsable("it scores a rubric without saying which")
    return checked(of_items(items), list(dict.fromkeys(ids)))


def checked(card: Scorecard, ids: Sequence[str]) -> Scorecard:
    """A card that scores each of `ids` exactly once, in any order.

    Raises:
        Unparsable: naming the first rubric that is missing, doubled or unknown.
    """
    scored = [item.id for item in card.items]
    for id_ in scored:
        if id_ not in ids:
            raise Unparsable(f"it scores the rubric {id_!r}, which is not asked for")
        if scored.count(id_) > 1:
            raise Unparsable(f"it scores the rubric {id_!r} twice")
    for id_ in ids:
        if id_ not in scored:
            raise Unparsable(f"it does not score the rubric {id_!r}")
    return card


def _item(value: object) -> ItemScore:
    if not isinstance(value, Mapping):
        raise Unparsable("an element of `rubricScores` is no object")
    return ItemScore(trimmed(_text(value, "id")), _score(value, "score"), _text(value, "reason"))


def single_score(text: str) -> Scorecard:
    """`{"score": 0.7, "reason": "…"}`.

    Raises:
        Unparsable: it is something else.
    """
    found = _object(text)
    return Scorecard(_score(found, "score"), _text(found, "reason"))


def boolean(text: str) -> Scorecard:
    """`{"passed": true, "reason": "…"}`.

    Raises:
        Unparsable: it is something else.
    """
    found = _object(text)
    passed = _member(found, "passed")
    if not isinstance(passed, bool):
        raise Unparsable("`passed` must be true or false")
    return Scorecard(1.0 if passed else 0.0, _text(found, "reason"), value=passed)


def categorical(text: str, scores: Mapping[str, float]) -> Scorecard:
    """`{"category": "good", "reason": "…"}`, worth what `scores` says; 0.0 for a category that it lacks.

    Raises:
        Unparsable: it is something else.
    """
    found = _object(text)
    category, reason = _text(found, "category"), _text(found, "reason")
    if category not in scores:
        quoted = json.dumps(category, ensure_ascii=False)
        return Scorecard(0.0, f"unknown categorical label {quoted}: {reason}", value=category)
    return Scorecard(scores[category], reason, value=category)


def rubric_schema(ids: Sequence[str]) -> AnswerSchema:
    """The form of `rubric_scores`."""
    item = _closed({"id": {"type": "string"}, "score": {"type": "number", "enum": [0, 1]}, "reason": _TEXT})
    items = {"type": "array", "items": item, "minItems": len(ids), "maxItems": len(ids)}
    return AnswerSchema("rubric_response_scores", _closed({"rubricScores": items}))


def scores_schema() -> AnswerSchema:
    """The form of `rubric_scores` where a prompt of the user's own says what is scored, and how finely."""
    item = _closed({"id": _TEXT, "score": {"type": "number"}, "reason": _TEXT})
    return AnswerSchema("rubric_scores_result", _closed({"rubricScores": {"type": "array", "items": item}}))


def single_schema() -> AnswerSchema:
    """The form of `single_score`."""
    return AnswerSchema("single_score_result", _closed({"score": {"type": "number"}, "reason": _TEXT}))


def boolean_schema() -> AnswerSchema:
    """The form of `boolean`."""
    return AnswerSchema("boolean_result", _closed({"passed": {"type": "boolean"}, "reason": _TEXT}))


def categorical_schema(labels: Sequence[str]) -> AnswerSchema:
    """The form of `categorical`."""
    category = {"type": "string", "enum": list(labels)}
    return AnswerSchema("categorical_result", _closed({"category": category, "reason": _TEXT}))


_TEXT = {"type": "string"}


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _object(text: str) -> Mapping[str, object]:
    try:
        value = _DECODER.decode(_unfenced(text))
    except (ValueError, RecursionError):
        raise Unparsable("it is no JSON, or has something after it") from None
    if not isinstance(value, Mapping):
        raise Unparsable("it is no JSON object")
    return value


def _unfenced(text: str) -> str:
    """What is in a code block, if the answer is nothing but one: of JSON, or of no language."""
    text = trimmed(text)
    if not text.startswith(_FENCE):
        return text
    for opening in (f"{_FENCE}json", f"{_FENCE}JSON", _FENCE):
        text = text.removeprefix(opening)
    return trimmed(text.removesuffix(_FENCE))


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Keys count in any case, as Go reads them; of several spellings the last."""
    return {folded(key): value for key, value in pairs}


def _no_number(name: str) -> object:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_no_number)


def _member(value: Mapping[str, object], name: str) -> object:
    return value.get(folded(name))


def _text(value: Mapping[str, object], name: str) -> str:
    text = _member(value, name)
    if not isinstance(text, str):
        raise Unparsable(f"`{name}` is missing or no text")
    return encodable(text)


def _score(value: Mapping[str, object], name: str) -> float:
    number = _member(value, name)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Unparsable(f"`{name}` is missing or no number")
    if not math.isfinite(number) or not 0 <= number <= 1:
        raise Unparsable(f"`{name}` is {number}, which is not from 0 to 1")
    return float(number)
