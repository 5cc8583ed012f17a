"""Parsers of the answers of a judge, the model that rates a reply.

`build_number_parser` and `parse_met_share` serve metrics that Google ADK leaves to Vertex AI. All other
parsers read answers as Google ADK 2.3.0 and 2.13.0 do.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from evalgate.core.frozen import frozen
from evalgate.llm.client import ModelAnswer
from evalgate.llm.sampling import UnparsableAnswerError

_POSITIVE = frozenset({"valid", "true"})
_NEGATIVE = frozenset({"invalid", "almost", "false", "partially", "partially_valid", "partially valid"})
_SUPPORTED = frozenset({"supported", "not_applicable"})
_UNSUPPORTED = frozenset({"unsupported", "contradictory", "disputed"})
_WORD = r'[^"\]\s^]'
_WORDS = r'[^"\]]'
_ADK_2_6 = (2, 6)
"""The first release (major, minor) of Google ADK that reads loosely written answers."""
_SENTENCE = re.compile(r"<sentence>(.*?)</sentence>", re.DOTALL)
# All five lines must be there in this order, or Google ADK does not count the sentence.
_BLOCK = re.compile(
    r"sentence:(?P<sentence>.*?)\nlabel:(?P<label>.*?)\nrationale:(?P<rationale>.*?)"
    r"\nsupporting_excerpt:.*?\ncontradicting_excerpt:.*?(?=\nsentence:|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_PLAINER = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
_MARKUP = " *_`#>-\u2022\"'"


@frozen
class JudgeOpinion:
    """The score in one answer of a judge, in the metric's range, and the judge's reason for it."""

    score: float
    reason: str = ""


def build_validity_parser(release: tuple[int, int]) -> Callable[[ModelAnswer], JudgeOpinion]:
    """Build a parser that returns the score 1.0 if the judge finds a response valid, else 0.0.

    The parser raises UnparsableAnswerError for an answer without a known label. `release` is the (major,
    minor) release of Google ADK to agree with. As in Google ADK, these keys are read:

    * `is_the_agent_response_valid`: `valid` and `true` mean 1.0, and the other known labels 0.0. A label is
      known only in lower case. If the value is a list, its first label decides.
    * `is_the_agent_response_invalid`, only if the answer lacks `is_the_agent_response_valid`: `true` and
      `invalid` mean 0.0, and any other label 1.0.
    """

    def parse_validity(answer: ModelAnswer) -> JudgeOpinion:
        label = _trim_label(_find_label(answer.text, "is_the_agent_response_valid", _WORD), release)
        # The label keeps its case: for Google ADK, `Valid` is no label.
        if label in _POSITIVE | _NEGATIVE:
            return JudgeOpinion(float(label in _POSITIVE), _find_reason(answer.text))
        wrong_key = _trim_label(_find_label(answer.text, "is_the_agent_response_invalid", _WORD), release)
        # Some judges answer under this key; Google ADK takes all but these two labels for valid.
        if label is None and wrong_key is not None:
            return JudgeOpinion(float(wrong_key not in {"true", "invalid"}), _find_reason(answer.text))
        raise UnparsableAnswerError("it has no `is_the_agent_response_valid` that is valid or invalid")

    return parse_validity


def _trim_label(label: str | None, release: tuple[int, int]) -> str | None:
    """Strip commas and closing braces from the end of a label; return None if `label` is None.

    These characters can follow a label that is not in quotation marks. For a `release` of Google ADK before
    2.6, strip commas, closing braces, backslashes and the letter s from both ends, as ADK did then.
    """
    if label is None:
        return None
    # Earlier releases meant `\s` as white space.
    return label.rstrip(",}") if release >= _ADK_2_6 else label.strip("\\s,}")


def parse_turn_validity(answer: ModelAnswer) -> JudgeOpinion:
    """Parse the verdict on a simulated user's message: 1.0 if the message is valid, else 0.0.

    Raises:
        UnparsableAnswerError: there is no label that Google ADK knows.
    """
    label = (_find_label(answer.text, "is_valid", _WORDS) or "").strip("}").replace(",", "").strip().lower()
    if label not in _POSITIVE | _NEGATIVE:
        raise UnparsableAnswerError("it has no `is_valid` that is true or false")
    return JudgeOpinion(float(label in _POSITIVE), _find_reason(answer.text))


def _find_label(text: str, key: str, letters: str) -> str | None:
    found = re.search(rf'"{key}":\s*\[*\s*"*({letters}*)"*\s*\]*\s*[,\n}}]', text)
    return found.group(1) if found else None


def _find_reason(text: str) -> str:
    found = re.search(r'"(?:reasoning|reason|rationale)":\s*("(?:[^"\\]|\\.)*")', text)
    if found is None:
        return ""
    try:
        return str(json.loads(found.group(1), strict=False)).strip()
    except ValueError:
        return ""


@frozen
class RubricVerdict:
    """One answer's verdict on one rubric."""

    score: float | None
    """1.0 for yes, 0.0 for no, None for any other answer."""
    rationale: str = ""


RubricVerdicts: TypeAlias = tuple[tuple[str, RubricVerdict], ...]
"""Rubric ids with verdicts, in the order of the answer, which may name one rubric several times."""


def build_rubric_parser(rubrics: Mapping[str, str], release: tuple[int, int]) -> "RubricParser":
    """Build a parser of answers with verdicts on `rubrics`, which are texts by id.

    The parser reads answers as the (major, minor) `release` of Google ADK does.
    """
    return RubricParser(rubrics, parses_as_adk_2_6=release >= _ADK_2_6)


@frozen
class RubricParser:
    """Parser of the lines `Property:`, `Rationale:` and `Verdict:`, three for each rubric."""

    rubrics: Mapping[str, str]
    parses_as_adk_2_6: bool
    """True: parse as Google ADK from 2.6 on, which ignores markup, reads `ID:` lines, and refuses an answer
    without equally many `Property:`, `Rationale:` and `Verdict:` lines. False: parse as earlier releases."""

    def __call__(self, answer: ModelAnswer) -> RubricVerdicts:
        """Return the verdicts on known rubrics, in the order of the answer; other verdicts are left out.

        An answer should have equally many `Property:`, `Rationale:` and `Verdict:` lines. Otherwise, the
        result depends on `parses_as_adk_2_6`: if True, an error is raised; if False, surplus lines are
        ignored.

        Raises:
            UnparsableAnswerError: no verdict on a known rubric is yes or no. With `parses_as_adk_2_6`, also
                raised if the answer does not have equally many lines of each kind.
        """
        text = answer.text
        named = (
            _find_property_lines(text)
            if self.parses_as_adk_2_6
            else [("", each) for each in _find_lines(text, "Property")]
        )
        rationales, verdicts = _find_lines(text, "Rationale"), _find_lines(text, "Verdict")
        if self.parses_as_adk_2_6 and not len(named) == len(rationales) == len(verdicts):
            raise UnparsableAnswerError(
                "its `Property`, `Rationale` and `Verdict` lines are not equally many"
            )
        # Not strict: Google ADK 2.3.0 pairs lines until the shortest list ends, as its scores show.
        blocks = zip(named, rationales, verdicts, strict=False)
        ids = {self._normalize_text(each): id_ for id_, each in self.rubrics.items()}
        found: list[tuple[str, RubricVerdict]] = []
        for (own_id, rubric), rationale, verdict in blocks:
            id_ = own_id if own_id in self.rubrics else ids.get(self._normalize_text(rubric))
            if id_ is not None:
                # Google ADK looks for the letters, so that "no, yes" and "yesterday" are a yes.
                lowered = verdict.lower()
                score = 1.0 if "yes" in lowered else 0.0 if "no" in lowered else None
                found.append((id_, RubricVerdict(score, rationale.strip())))
        if not any(verdict.score is not None for _, verdict in found):
            raise UnparsableAnswerError("it gives no verdict, yes or no, on any of the rubrics")
        return tuple(found)

    def _normalize_text(self, text: str) -> str:
        if not self.parses_as_adk_2_6:
            return text.lower().strip()
        text = unicodedata.normalize("NFKC", text).translate(_PLAINER)
        return re.sub(r"\s+", " ", text).strip(_MARKUP).lower()


def _find_lines(text: str, key: str) -> Sequence[str]:
    return [str(found) for found in re.findall(rf"(?<={key}: )(.*)", text)]


def _find_property_lines(text: str) -> Sequence[tuple[str, str]]:
    """Return a pair (id, property) for each `Property:` line.

    The id is in the `ID:` line before the `Property:` line. Without an `ID:` line, the id is "".
    """
    found, own_id = [], ""
    for line in re.finditer(r"^[^\S\n]*(ID|Property): (.*)$", text, re.MULTILINE):
        if line[1] == "ID":
            own_id = line[2].strip()
        else:
            found.append((own_id, line[2].strip()))
            own_id = ""
    return found


def parse_sentences(answer: ModelAnswer) -> tuple[str, ...]:
    """Return the sentences in the judge's tags `<sentence>`, into which the judge divided a response.

    Raises:
        UnparsableAnswerError: the answer holds no sentence.
    """
    found = tuple(str(each) for each in _SENTENCE.findall(answer.text))
    if not found:
        raise UnparsableAnswerError("it holds no <sentence>")
    return found


def parse_support(answer: ModelAnswer) -> JudgeOpinion:
    """Compute the share, in [0, 1], of sentences that the context supports or that need no support.

    Sentences with a label unknown to Google ADK do not count.

    Raises:
        UnparsableAnswerError: no sentence has a label that Google ADK knows.
    """
    blocks = list(_BLOCK.finditer(answer.text.strip()))
    labels = [block["label"].strip().lower() for block in blocks]
    known = [label for label in labels if label in _SUPPORTED | _UNSUPPORTED]
    if not known:
        raise UnparsableAnswerError(
            "it labels no sentence as supported, unsupported, contradictory or disputed"
        )
    score = sum(label in _SUPPORTED for label in known) / len(known)
    return JudgeOpinion(score, "; ".join(_describe_unsupported(blocks)))


def _describe_unsupported(blocks: Sequence[re.Match[str]]) -> Iterator[str]:
    for block in blocks:
        label = block["label"].strip().lower()
        if label in _UNSUPPORTED:
            yield f"{label}: {block['sentence'].strip()} ({block['rationale'].strip()})"


def build_number_parser(low: float, high: float) -> Callable[[ModelAnswer], JudgeOpinion]:
    """Build a parser of answers in JSON with a `score` from `low` to `high`, both included.

    The parser raises UnparsableAnswerError if an answer has no such score.
    """

    def parse_number(answer: ModelAnswer) -> JudgeOpinion:
        found = re.search(r'"score":\s*"?(-?\d+(?:\.\d+)?)', answer.text)
        if found is None:
            raise UnparsableAnswerError("it has no `score` that is a number")
        score = float(found.group(1))
        if not low <= score <= high:
            raise UnparsableAnswerError(f"its score {score:g} is not between {low:g} and {high:g}")
        return JudgeOpinion(score, _find_reason(answer.text))

    return parse_number


def parse_met_share(answer: ModelAnswer) -> JudgeOpinion:
    """Compute the share, in [0, 1], of requirements that the judge finds met.

    Raises:
        UnparsableAnswerError: no requirement has a verdict.
    """
    met = re.findall(r'"met":\s*(true|false)', answer.text)
    if not met:
        raise UnparsableAnswerError("it says of no requirement that `met` is true or false")
    return JudgeOpinion(met.count("true") / len(met), _find_reason(answer.text))
