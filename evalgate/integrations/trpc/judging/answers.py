"""Parse a judge's answers (JSON, text fields or letter grades), and choose one of several answers.

tRPC-Agent-Go finds text fields with a lazy regular expression. Here the name of each field is searched for
behind the name of the previous field. The result is the same, in one pass over any answer.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from evalgate.core.frozen import frozen
from evalgate.core.means import compute_sequential_mean
from evalgate.core.sanitize import replace_lone_surrogates
from evalgate.core.types import JsonObject
from evalgate.integrations.trpc.go_json import fold_key, reject_constant, trim_go_space
from evalgate.llm.client import AnswerSchema, TokenChoice
from evalgate.llm.sampling import UnparsableAnswerError


@frozen
class ItemScore:
    """The judge's score of one rubric, or of one sentence."""

    id: str
    score: float
    reason: str = ""


@frozen
class Scorecard:
    """A judge's rating of one turn, from one answer: the score, and scores of single rubrics or sentences."""

    score: float
    """Score in the range [0, 1]."""
    reason: str = ""
    items: tuple[ItemScore, ...] = ()
    """Scores of single items in the judge's order; empty if the judge was asked for one score."""
    value: bool | str | None = None
    """The judge's choice, if the choice is not a number: a boolean or a category; else None."""

    @property
    def details(self) -> JsonObject:
        """Return the scores of items and the judge's choice, for the metric's details in the record."""
        items = [{"id": item.id, "score": item.score, "reason": item.reason} for item in self.items]
        value = {} if self.value is None else {"value": self.value}
        return {**({"rubric_scores": items} if items else {}), **value}


def combine_items(items: Sequence[ItemScore]) -> Scorecard:
    """Return a scorecard with the mean of `items` (at least one) and their reasons, each on a line."""
    mean = compute_sequential_mean([item.score for item in items])
    return Scorecard(mean, "\n".join(item.reason for item in items), tuple(items))


def choose_representative(cards: Sequence[Scorecard], threshold: float) -> Scorecard:
    """Return the first card of the majority, passing or failing; on a tie, the first card that fails.

    This is tRPC-Agent-Go's `majority_vote`. A card passes if its score is at least `threshold`. `cards` must
    not be empty.
    """
    passing = [card for card in cards if card.score >= threshold]
    failing = [card for card in cards if card.score < threshold]
    return passing[0] if len(passing) > len(failing) else failing[0]


SCALE = "ABCDEFGHIJKLMNOPQRST"
_WORST = len(SCALE) - 1


def parse_pairwise_score(choices: Sequence[TokenChoice]) -> Scorecard:
    """Compute the score of response A against response B, in [0, 1], from the judge's letter grades.

    Equal grades score 0.5. The best grade for A and the worst for B score 1.0.

    Raises:
        UnparsableAnswerError: a tag, a letter or the probabilities are missing.
    """
    first, second = _score_letter(choices, "score_A"), _score_letter(choices, "score_B")
    reason = f"Computed from score_A {first:.4f} and score_B {second:.4f} log probabilities."
    return Scorecard(0.5 + (first - second) / 2, reason)


def _score_letter(choices: Sequence[TokenChoice], name: str) -> float:
    """Return the score, in [0, 1], of the letter grade that follows the first tag `<name>`.

    The score is the mean over all letters that the model might have written, weighted by their probabilities.

    Raises:
        UnparsableAnswerError: the tag, the letter or the probabilities are missing.
    """
    if not choices:
        raise UnparsableAnswerError("it has no log probabilities: the model must give them (`logprobs`)")
    tag = f"<{name}>"
    text = "".join(choice.token for choice in choices)
    start = text.find(tag)
    if start < 0:
        raise UnparsableAnswerError(f"it has no `{tag}`")
    choice, before = _find_token(choices, start + len(tag), name)
    return _compute_expected_score(_collect_logprobs(choice, before), name)


def _find_token(choices: Sequence[TokenChoice], index: int, name: str) -> tuple[TokenChoice, str]:
    """Return the token with the character at `index` of the text, and the part of the token before `index`.

    The text is the joined tokens of `choices`.

    Raises:
        UnparsableAnswerError: the text ends before `index`. The message says that nothing follows `<name>`.
    """
    end = 0
    for at, choice in enumerate(choices):
        begin, end = end, end + len(choice.token)
        if end > index:
            return choice, choice.token[: index - begin]
        # This token may be empty.
        if end == index and at + 1 < len(choices):
            return choices[at + 1], ""
    raise UnparsableAnswerError(f"nothing follows `<{name}>`")


def _collect_logprobs(choice: TokenChoice, before: str) -> Mapping[int, float]:
    """Return the log probability of each letter grade, by the letter's index in `SCALE`.

    Letters are read from the token that the model chose, and from its alternatives at the same position. The
    part `before` in front of the letter is removed; a token that does not begin with it is skipped. If
    several tokens have the same letter, the highest probability counts.
    """
    found: dict[int, float] = {}
    for token, logprob in ((choice.token, choice.logprob), *choice.alternatives):
        letter = trim_go_space(token.removeprefix(before)).upper() if token.startswith(before) else ""
        if len(letter) == 1 and letter in SCALE:
            step = SCALE.index(letter)
            found[step] = max(logprob, found.get(step, logprob))
    return found


def _compute_expected_score(logprobs: Mapping[int, float], name: str) -> float:
    best = max(logprobs.values(), default=-math.inf)
    if best == -math.inf or any(map(math.isnan, logprobs.values())):
        raise UnparsableAnswerError(f"no letter from A to T follows `<{name}>`")
    # Relative to the best: the exponential of a small logprob is 0.
    weights = {step: math.exp(logprob - best) for step, logprob in logprobs.items()}
    return math.fsum((1 - step / _WORST) * weight for step, weight in weights.items()) / math.fsum(
        weights.values()
    )


_BLANKS = " \t\n\r\f"
_LINE_END = re.compile(r"\n")
_BLANK_LINE = re.compile(r"\n[ \t\n\r\f]*\n")
_FINAL = ("reasoning:", "is_the_agent_response_valid:")
_RUBRIC = ("ID:", "Rubric:", "Evidence:", "Reason:", "Verdict:")
_SENTENCE = ("ID:", "Reason:", "Label:", "Verdict:")
_SUPPORTED = frozenset({"supported", "not_applicable"})
_UNSUPPORTED = frozenset({"unsupported", "contradictory", "disputed"})


def parse_final_response(text: str) -> Scorecard:
    """Parse the fields in `reasoning: … is_the_agent_response_valid: LABEL`.

    The score is 1.0 for the label `valid`, in small or capital letters. The score is 0.0 for `invalid`, for
    an empty label, and for a label with `valid` among other characters, such as `**valid**`, as in Go.

    Raises:
        UnparsableAnswerError: a field is missing, or the label is a text without `valid`. Go takes such a
            label for `invalid`, but it does not answer the question.
    """
    found = next(_iter_blocks(text, _FINAL), None)
    if found is None:
        raise UnparsableAnswerError(f"it has no `{_FINAL[0]}` that is followed by `{_FINAL[1]}`")
    reason, label = found[0], found[1].lower()
    if label and "valid" not in label:
        raise UnparsableAnswerError(f"its label {label[:60]!r} is neither `valid` nor `invalid`")
    return Scorecard(1.0 if label == "valid" else 0.0, reason)


def parse_rubric_blocks(text: str) -> Scorecard:
    """Parse blocks of `ID:`, `Rubric:`, `Evidence:`, `Reason:` and `Verdict: yes`; return their mean.

    Any verdict but `yes` scores 0.0.

    Raises:
        UnparsableAnswerError: no block has all of these fields.
    """
    # Anything but a yes is a no, as in Go: "Yes." and "partly" score 0.0.
    items = [
        ItemScore(id_, 1.0 if verdict.lower() == "yes" else 0.0, reason)
        for id_, _, _, reason, verdict in _iter_blocks(text, _RUBRIC)
    ]
    if not items:
        raise UnparsableAnswerError(f"it has no block of {', '.join(_RUBRIC)}")
    return combine_items(items)


def parse_sentence_blocks(text: str) -> Scorecard:
    """Parse blocks of `ID:`, `Reason:`, `Label:` and `Verdict:` between blank lines; return their mean.

    The labels `supported` and `not_applicable` score 1.0, and other known labels 0.0. With an empty label,
    the verdict `yes` scores 1.0, and any other verdict 0.0.

    Raises:
        UnparsableAnswerError: no block has all of these fields, or a label is unknown.
    """
    blocks = _iter_blocks(text, _SENTENCE, _BLANK_LINE)
    items = [_parse_sentence(number, block) for number, block in enumerate(blocks, start=1)]
    if not items:
        raise UnparsableAnswerError(f"it has no block of {', '.join(_SENTENCE)}")
    return combine_items(items)


def _parse_sentence(number: int, block: Sequence[str]) -> ItemScore:
    id_, reason, label, verdict = block
    id_, label = id_ or str(number), label.lower().replace(" ", "_")
    if not label:
        return ItemScore(id_, 1.0 if verdict.lower() == "yes" else 0.0, reason)
    if label not in _SUPPORTED | _UNSUPPORTED:
        raise UnparsableAnswerError(f"sentence {id_} has the unknown label {label!r}")
    return ItemScore(id_, 1.0 if label in _SUPPORTED else 0.0, trim_go_space(f"[{label}] {reason}"))


def _iter_blocks(text: str, names: Sequence[str], end: re.Pattern[str] = _LINE_END) -> Iterator[list[str]]:
    """Yield the trimmed values of each block. A block has one field for each of `names`, in order.

    A value begins after the name of its field and ends at the next name. The last value of a block ends at
    the next match of `end`.
    """
    at = 0
    while True:
        starts: list[int] = []
        for name in names:
            at = text.find(name, at)
            if at < 0:
                return
            at += len(name)
            starts.append(at)
        ends = [start - len(name) for start, name in zip(starts[1:], names[1:], strict=True)]
        values = [trim_go_space(text[start:stop]) for start, stop in zip(starts, ends, strict=False)]
        last = len(text) - len(text[at:].lstrip(_BLANKS))
        found = end.search(text, last)
        at = found.start() if found else len(text)
        yield [*values, trim_go_space(text[last:at])]


_FENCE = "```"


def looks_like_json(text: str) -> bool:
    """Return True if an answer begins like JSON, well-formed or not."""
    return _strip_fence(text).startswith(("{", "["))


def parse_rubric_scores(text: str) -> Scorecard:
    """Parse `{"rubricScores": [{"id", "score", "reason"}, …]}` and return the mean of the scores.

    Raises:
        UnparsableAnswerError: the answer has another form, no score, a score without an id, two scores with
            the same id, or a score outside of [0, 1].
    """
    found = _get_member(_parse_object(text), "rubricScores")
    if not isinstance(found, list) or not found:
        raise UnparsableAnswerError("`rubricScores` is missing")
    items = [_parse_item(each) for each in found]
    ids = [item.id for item in items]
    if "" in ids:
        raise UnparsableAnswerError("it scores a rubric without saying which")
    return check_rubric_ids(combine_items(items), list(dict.fromkeys(ids)))


def check_rubric_ids(card: Scorecard, ids: Sequence[str]) -> Scorecard:
    """Return the card if it scores each of `ids` exactly once, in any order.

    Raises:
        UnparsableAnswerError: a rubric is missing, repeated or unknown; the message names it.
    """
    scored = [item.id for item in card.items]
    for id_ in scored:
        if id_ not in ids:
            raise UnparsableAnswerError(f"it scores the rubric {id_!r}, which is not asked for")
        if scored.count(id_) > 1:
            raise UnparsableAnswerError(f"it scores the rubric {id_!r} twice")
    for id_ in ids:
        if id_ not in scored:
            raise UnparsableAnswerError(f"it does not score the rubric {id_!r}")
    return card


def _parse_item(value: object) -> ItemScore:
    if not isinstance(value, Mapping):
        raise UnparsableAnswerError("an element of `rubricScores` is no object")
    return ItemScore(
        trim_go_space(_get_text(value, "id")), _get_score(value, "score"), _get_text(value, "reason")
    )


def parse_single_score(text: str) -> Scorecard:
    """Parse `{"score": 0.7, "reason": "…"}`.

    Raises:
        UnparsableAnswerError: the answer has another form, or the score is not from 0 to 1.
    """
    found = _parse_object(text)
    return Scorecard(_get_score(found, "score"), _get_text(found, "reason"))


def parse_boolean(text: str) -> Scorecard:
    """Parse `{"passed": true, "reason": "…"}`; true scores 1.0.

    Raises:
        UnparsableAnswerError: the answer has another form.
    """
    found = _parse_object(text)
    passed = _get_member(found, "passed")
    if not isinstance(passed, bool):
        raise UnparsableAnswerError("`passed` must be true or false")
    return Scorecard(1.0 if passed else 0.0, _get_text(found, "reason"), value=passed)


def parse_category(text: str, scores: Mapping[str, float]) -> Scorecard:
    """Parse `{"category": "good", "reason": "…"}`; an unknown category scores 0.0.

    Raises:
        UnparsableAnswerError: the answer has another form.
    """
    found = _parse_object(text)
    category, reason = _get_text(found, "category"), _get_text(found, "reason")
    if category not in scores:
        quoted = json.dumps(category, ensure_ascii=False)
        return Scorecard(0.0, f"unknown categorical label {quoted}: {reason}", value=category)
    return Scorecard(scores[category], reason, value=category)


def build_rubric_schema(ids: Sequence[str]) -> AnswerSchema:
    """Build the JSON Schema for `parse_rubric_scores`, with a score of 0 or 1 for each of `ids`."""
    item = _build_object_schema(
        {"id": {"type": "string"}, "score": {"type": "number", "enum": [0, 1]}, "reason": _TEXT}
    )
    items = {"type": "array", "items": item, "minItems": len(ids), "maxItems": len(ids)}
    return AnswerSchema("rubric_response_scores", _build_object_schema({"rubricScores": items}))


def build_scores_schema() -> AnswerSchema:
    """Build the JSON Schema for `parse_rubric_scores` with any number of scores.

    The schema is for a user's own prompt, which names the rubrics itself.
    """
    item = _build_object_schema({"id": _TEXT, "score": {"type": "number"}, "reason": _TEXT})
    return AnswerSchema(
        "rubric_scores_result", _build_object_schema({"rubricScores": {"type": "array", "items": item}})
    )


def build_single_score_schema() -> AnswerSchema:
    """Build the JSON Schema for `parse_single_score`, with `score` and `reason`."""
    return AnswerSchema(
        "single_score_result", _build_object_schema({"score": {"type": "number"}, "reason": _TEXT})
    )


def build_boolean_schema() -> AnswerSchema:
    """Build the JSON Schema for `parse_boolean`, with `passed` and `reason`."""
    return AnswerSchema(
        "boolean_result", _build_object_schema({"passed": {"type": "boolean"}, "reason": _TEXT})
    )


def build_categorical_schema(labels: Sequence[str]) -> AnswerSchema:
    """Build the JSON Schema for `parse_category`, with one of `labels` as `category`, and `reason`."""
    category = {"type": "string", "enum": list(labels)}
    return AnswerSchema("categorical_result", _build_object_schema({"category": category, "reason": _TEXT}))


_TEXT = {"type": "string"}


def _build_object_schema(properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _parse_object(text: str) -> Mapping[str, object]:
    try:
        value = _DECODER.decode(_strip_fence(text))
    except (ValueError, RecursionError):
        raise UnparsableAnswerError("it is no JSON, or has something after it") from None
    if not isinstance(value, Mapping):
        raise UnparsableAnswerError("it is no JSON object")
    return value


def _strip_fence(text: str) -> str:
    """Return an answer, trimmed, without its Markdown code fence (```).

    The language `json` after the opening fence is removed; the name of another language stays.
    """
    text = trim_go_space(text)
    # As in Go, only a fence at the very start counts.
    if not text.startswith(_FENCE):
        return text
    for opening in (f"{_FENCE}json", f"{_FENCE}JSON", _FENCE):
        text = text.removeprefix(opening)
    return trim_go_space(text.removesuffix(_FENCE))


# Keys are read in any case, as in Go. Of several spellings of a key, the last counts.
_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: {fold_key(key): value for key, value in pairs},
    parse_constant=reject_constant,
)


def _get_member(value: Mapping[str, object], name: str) -> object:
    return value.get(fold_key(name))


def _get_text(value: Mapping[str, object], name: str) -> str:
    text = _get_member(value, name)
    if not isinstance(text, str):
        raise UnparsableAnswerError(f"`{name}` is missing or no text")
    return replace_lone_surrogates(text)


def _get_score(value: Mapping[str, object], name: str) -> float:
    number = _get_member(value, name)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UnparsableAnswerError(f"`{name}` is missing or no number")
    if not math.isfinite(number) or not 0 <= number <= 1:
        raise UnparsableAnswerError(f"`{name}` is {number}, which is not from 0 to 1")
    return float(number)
