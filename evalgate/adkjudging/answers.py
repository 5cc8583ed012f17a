"""What judges answer, read as Google ADK 2.3.0 and 2.13.0 read it."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalgate.judge.asking import ModelAnswer
from evalgate.judge.sampling import Unparsable

_POSITIVE = frozenset({"valid", "true"})
_NEGATIVE = frozenset({"invalid", "almost", "false", "partially", "partially_valid"})
_SUPPORTED = frozenset({"supported", "not_applicable"})
_UNSUPPORTED = frozenset({"unsupported", "contradictory", "disputed"})
_SENTENCE = re.compile(r"<sentence>(.*?)</sentence>", re.DOTALL)
_BLOCK = re.compile(
    r"sentence:(?P<sentence>.*?)\nlabel:(?P<label>.*?)\nrationale:(?P<rationale>.*?)"
    r"\nsupporting_excerpt:.*?\ncontradicting_excerpt:.*?(?=\n\s*sentence:|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_MARKUP = "*_`\"'\u201c\u201d\u2018\u2019 "  # and quotation marks


@dataclass(frozen=True, slots=True)
class Opinion:
    """One answer: a score in the metric's range, and why."""

    score: float
    reason: str = ""


def validity(answer: ModelAnswer) -> Opinion:
    """Whether a response is valid: the first label decides.

    Raises:
        Unparsable: there is no label that Google ADK knows.
    """
    label = _label(answer.text, "is_the_agent_response_valid")
    if label in _POSITIVE | _NEGATIVE:
        return Opinion(float(label in _POSITIVE), _reason_in(answer.text))
    wrong_key = _label(answer.text, "is_the_agent_response_invalid")
    if label is None and wrong_key is not None:
        return Opinion(float(wrong_key not in {"true", "invalid"}), _reason_in(answer.text))
    raise Unparsable("it has no `is_the_agent_response_valid` that is valid or invalid")


def turn_validity(answer: ModelAnswer) -> Opinion:
    """Whether a simulated user's message is valid.

    Raises:
        Unparsable: there is no label that Google ADK knows.
    """
    label = (_label(answer.text, "is_valid") or "").lower()
    if label not in _POSITIVE | _NEGATIVE:
        raise Unparsable("it has no `is_valid` that is true or false")
    return Opinion(float(label in _POSITIVE), _reason_in(answer.text))


def _label(text: str, key: str) -> str | None:
    found = re.search(rf'"{key}":\s*\[*\s*"*([^"\]\s]*)"*\s*\]*\s*[,\n}}]', text)
    return found.group(1) if found else None


def _reason_in(text: str) -> str:
    found = re.search(r'"(?:reasoning|reason|rationale)":\s*("(?:[^"\\]|\\.)*")', text)
    if found is None:
        return ""
    try:
        return str(json.loads(found.group(1), strict=False)).strip()
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one answer says of one rubric."""

    score: float | None
    """None: neither yes nor no."""
    rationale: str = ""


def rubric_verdicts(rubrics: Mapping[str, str], release: tuple[int, int]) -> "RubricParser":
    """A reader of answers about these rubrics (id → text), as that release of Google ADK has it."""
    return RubricParser(rubrics, is_lenient=release >= (2, 6))


@dataclass(frozen=True, slots=True)
class RubricParser:
    """Reads `Property:`, `Rationale:` and `Verdict:` lines."""

    rubrics: Mapping[str, str]
    is_lenient: bool
    """Later releases see through markup, read `ID:` lines, and refuse answers whose lines do not pair."""

    def __call__(self, answer: ModelAnswer) -> Mapping[str, Verdict]:
        """Rubric → verdict; what is said of unknown rubrics does not count.

        Raises:
            Unparsable: it has no verdict on any of them.
        """
        named = self._named(answer.text)
        lines = {key: re.findall(rf"{key}: (.*)", answer.text) for key in ("Rationale", "Verdict")}
        if self.is_lenient and not len(named) == len(lines["Rationale"]) == len(lines["Verdict"]):
            raise Unparsable("its `Property`, `Rationale` and `Verdict` lines are not equally many")
        known = {self._plain(text): name for name, text in self.rubrics.items()}
        found: dict[str, Verdict] = {}
        # Not strict: 2.3.0 pairs what is there, as its scores show.
        for own, rationale, verdict in zip(named, lines["Rationale"], lines["Verdict"], strict=False):
            name = own if own in self.rubrics and self.is_lenient else known.get(self._plain(own))
            if name is not None:
                found[name] = Verdict(_yes_or_no(verdict), rationale.strip())
        if not any(verdict.score is not None for verdict in found.values()):
            raise Unparsable("it gives no verdict, yes or no, on any of the rubrics")
        return found

    def _named(self, text: str) -> Sequence[str]:
        """The property of each block, or its rubric's id where it says that."""
        properties = [str(found) for found in re.findall(r"Property: (.*)", text)]
        if not self.is_lenient:
            return properties
        ids = [str(found).strip(_MARKUP) for found in re.findall(r"^\W*ID: (.*)", text, re.MULTILINE)]
        return ids if len(ids) == len(properties) and set(ids) <= set(self.rubrics) else properties

    def _plain(self, text: str) -> str:
        if self.is_lenient:
            text = unicodedata.normalize("NFKC", text).strip().strip(_MARKUP)
        return " ".join(text.lower().split()) if self.is_lenient else text.lower().strip()


def _yes_or_no(verdict: str) -> float | None:
    lowered = verdict.lower()
    return 1.0 if "yes" in lowered else 0.0 if "no" in lowered else None


def sentences(answer: ModelAnswer) -> tuple[str, ...]:
    """The sentences of a response.

    Raises:
        Unparsable: there is none.
    """
    found = tuple(str(each) for each in _SENTENCE.findall(answer.text))
    if not found:
        raise Unparsable("it holds no <sentence>")
    return found


def support(answer: ModelAnswer) -> Opinion:
    """The share of sentences that the context supports, or that need no support.

    Raises:
        Unparsable: no sentence has a label that Google ADK knows.
    """
    blocks = list(_BLOCK.finditer(answer.text))
    labels = [block["label"].strip().lower() for block in blocks]
    known = [label for label in labels if label in _SUPPORTED | _UNSUPPORTED]
    if not known:
        raise Unparsable("it labels no sentence as supported, unsupported, contradictory or disputed")
    score = sum(label in _SUPPORTED for label in known) / len(known)
    return Opinion(score, "; ".join(_unsupported(blocks)))


def _unsupported(blocks: Sequence[re.Match[str]]) -> Iterator[str]:
    for block in blocks:
        label = block["label"].strip().lower()
        if label in _UNSUPPORTED:
            yield f"{label}: {block['sentence'].strip()} ({block['rationale'].strip()})"


def number_between(low: float, high: float) -> Callable[[ModelAnswer], Opinion]:
    """A reader of JSON with a `score` in that range.

    The reader raises Unparsable when there is none.
    """

    def read(answer: ModelAnswer) -> Opinion:
        found = re.search(r'"score":\s*"?(-?\d+(?:\.\d+)?)', answer.text)
        if found is None:
            raise Unparsable("it has no `score` that is a number")
        score = float(found.group(1))
        if not low <= score <= high:
            raise Unparsable(f"its score {score:g} is not between {low:g} and {high:g}")
        return Opinion(score, _reason_in(answer.text))

    return read


def share_of_demands(answer: ModelAnswer) -> Opinion:
    """The share of the demands, which the judge drew up itself, that it finds met.

    Raises:
        Unparsable: there is none with a verdict.
    """
    met = re.findall(r'"met":\s*(true|false)', answer.text)
    if not met:
        raise Unparsable("it has no demand with `met` true or false")
    return Opinion(met.count("true") / len(met), _reason_in(answer.text))
