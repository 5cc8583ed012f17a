"""`trpc/final_response_avg_score`: compare the final response as text, JSON or by ROUGE, or check its XML."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal
from xml.parsers import expat

from pydantic import Field, field_validator

from evalgate.core.types import CaseRun, CaseTurn, EvalCase, MetricResult, Reply, TurnScore
from evalgate.integrations.trpc.rouge_scores import compute_rouge
from evalgate.integrations.trpc.value_criteria import (
    GoModel,
    JsonCriterion,
    TextCriterion,
    TrpcTurnMetric,
    refuse_registered_name,
)
from evalgate.metrics.turnwise import compute_turn_mean

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TEXT_OUTSIDE = "xml content has non-whitespace text outside the root element"
_ELEMENT = re.compile(rb"<[^!?/\s]")


def find_xml_problem(text: str) -> str:
    """Return the fault of an XML document, or "" if it is well-formed.

    Nothing is read from other files or from the network. A document that declares entities is faulty.
    Predefined entities, and characters by number, are accepted.
    """
    data = text.strip().encode("utf-8", "replace")
    if not data:
        return "xml content is empty"
    if text.startswith("\ufeff"):  # which expat takes for a byte order mark
        return _TEXT_OUTSIDE
    if illegal := _ILLEGAL.search(text):
        return f"XML syntax error: illegal character code U+{ord(illegal.group()):04X}"
    parser = expat.ParserCreate("utf-8")
    seen = _XmlScan()
    parser.XmlDeclHandler = seen.check_declaration
    parser.StartElementHandler = seen.check_element
    parser.EntityDeclHandler = seen.record_entity
    fault = ""
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        fault = _describe_syntax_error(error, data, parser.ErrorByteIndex, has_root=seen.has_root)
    return seen.fault or fault


class _XmlScan:
    """Handlers for expat. They find faults that Go's `encoding/xml` reports and expat does not."""

    def __init__(self) -> None:
        self.has_root = False
        self.fault = ""

    def check_declaration(self, version: str, encoding: str | None, _standalone: int) -> None:
        if version != "1.0":
            self.fault = f'unsupported version "{version}"; only version 1.0 is supported'
        elif encoding is not None and encoding.lower() != "utf-8":
            self.fault = f'the encoding "{encoding}" is declared, and a text is UTF-8'

    def check_element(self, name: str, attributes: Mapping[str, str]) -> None:
        self.has_root = True
        for each in (name, *attributes):
            if each.count(":") > 1:
                self.fault = self.fault or f"XML syntax error: the name {each} has two colons"

    def record_entity(self, name: str, *_: object) -> None:
        self.fault = self.fault or f"the XML declares the entity {name}"


def _describe_syntax_error(error: expat.ExpatError, data: bytes, at: int, *, has_root: bool) -> str:
    if error.code == expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]:
        if _ELEMENT.match(data, at):
            return "xml content must contain a single root element"
        return _TEXT_OUTSIDE
    if not data.startswith(b"<"):
        return _TEXT_OUTSIDE
    if not has_root and error.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]:
        return "xml content must contain a root element"
    return f"XML syntax error on line {error.lineno}: {expat.ErrorString(error.code) or 'not XML'}"


class RougeThreshold(GoModel):
    """The least precision, recall and F1 of ROUGE that the response must reach."""

    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0


class RougeCriterion(GoModel):
    """Thresholds for the words that the response shares with the expected response."""

    ignore: bool = False
    rouge_type: str = Field(default="", alias="rougeType")
    measure: str = ""
    """`precision`, `recall` or `f1` ("" means `f1`): the score that the reason for a mismatch names first.
    This does not change the decision: all three scores must reach their thresholds."""
    threshold: RougeThreshold = RougeThreshold()
    use_stemmer: bool = Field(default=False, alias="useStemmer")
    split_summaries: bool = Field(default=False, alias="splitSummaries")
    tokenizer_name: str = Field(default="", alias="tokenizerName")

    _is_available = field_validator("tokenizer_name")(refuse_registered_name)

    def find_mismatch(self, actual: str, expected: str) -> str:
        """Return the reason why the criterion is not met, or "" if it is."""
        if not self.rouge_type:
            return "rouge criterion requires rougeType"
        if self.measure not in {"", "f1", "precision", "recall"}:
            return f"unsupported rouge measure: {self.measure}"
        try:
            precision, recall, f1 = compute_rouge(
                expected,
                actual,
                self.rouge_type,
                stemmed=self.use_stemmer,
                split_sentences=self.split_summaries,
            )
        except ValueError as error:
            return str(error)
        least = self.threshold
        # All three, whichever measure is named: `measure` only selects the figure that the reason shows
        # first.
        if precision >= least.precision and recall >= least.recall and f1 >= least.f1:
            return ""
        measure = self.measure or "f1"
        value = {"f1": f1, "precision": precision, "recall": recall}[measure]
        return (
            f"{self.rouge_type} {measure}={value:.6f} "
            f"precision={precision:.6f} recall={recall:.6f} f1={f1:.6f}"
        )


class XmlCriterion(GoModel):
    """A check that the response is XML; contents are not compared."""

    ignore: bool = False
    valid: bool = False
    match_strategy: str = Field(default="", alias="matchStrategy")

    def find_mismatch(self, actual: str) -> str:
        """Return the reason why the criterion is not met, or "" if it is."""
        if not self.match_strategy:
            return "xml match strategy is empty"
        if self.match_strategy != "skip":
            return f"invalid match strategy {self.match_strategy}"
        return find_xml_problem(actual) if self.valid else ""


class ResponseCriterion(GoModel):
    """Criteria for the final response. At least one must be set, and all that are set must be met."""

    text: TextCriterion | None = None
    json_: JsonCriterion | None = Field(default=None, alias="json")
    rouge: RougeCriterion | None = None
    xml: XmlCriterion | None = None
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(refuse_registered_name)

    def find_mismatch(self, actual: str | None, expected: str | None) -> str:
        """Return the reason why the responses do not match, or "" if they do.

        None is a missing response:

        * If both are None, they match.
        * If only `actual` is None, they do not match.
        * If only `expected` is None, it counts as "".

        Raises:
            ComparerResultError: a function of the user in a criterion returned no bool.
            RegexEngineMissingError: a pattern has to be read and `google-re2` is not installed.
            SchemaValidatorMissingError: there is a schema, and `jsonschema` is not installed.
            RecursionError: JSON values nest too deep.
        """
        if not (self.text or self.json_ or self.rouge or self.xml):
            return "final response criterion must configure text, json, rouge, or xml"
        if actual is None:
            return "" if expected is None else "actual or expected final response is nil"
        # As in newer releases, an expected response that is missing counts as an empty text.
        return "; ".join(self._iter_mismatches(actual, expected or ""))

    def _iter_mismatches(self, actual: str, expected: str) -> Iterator[str]:
        # In the order in which tRPC-Agent-Go joins the reasons.
        if self.json_ and (fault := self.json_.find_text_mismatch(actual, expected)):
            yield f"json mismatch: {fault}"
        if self.text and (fault := self.text.find_mismatch(actual, expected)):
            yield f"text mismatch: {fault}"
        if self.rouge and not self.rouge.ignore and (fault := self.rouge.find_mismatch(actual, expected)):
            yield f"rouge mismatch: {fault}"
        if self.xml and not self.xml.ignore and (fault := self.xml.find_mismatch(actual)):
            yield f"xml mismatch: {fault}"


class TrpcFinalResponse(TrpcTurnMetric):
    """1.0 for each turn with a matching final response, else 0.0, averaged, as tRPC-Agent-Go computes it."""

    compares_with: ClassVar[Literal["response", "tools"]] = "response"

    final_response: ResponseCriterion = Field(alias="finalResponse")
    tool_trajectory: Any = Field(default=None, alias="toolTrajectory")
    llm_judge: Any = Field(default=None, alias="llmJudge")

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]. A turn that is missing or unexpected scores 0.0.

        The result is not applicable for a case without turns, such as a case with a simulated user.

        Raises:
            ComparerResultError: a function of the user in a criterion returned no bool.
        """
        return await compute_turn_mean(case, run, self._score_turn)

    def _score_turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        fault = self.final_response.find_mismatch(reply.response, turn.expected.response)
        return TurnScore(0.0, f"final response mismatch: {fault}") if fault else TurnScore(1.0)
