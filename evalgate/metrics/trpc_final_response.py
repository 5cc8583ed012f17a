"""`trpc/final_response_avg_score`: whether the final response meets the criteria."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from evalgate.model import CaseRun, Criterion, EvalCase, MetricResult, Reply, Turn, TurnScore
from evalgate.protocols import MetricContext
from evalgate.reading.wellformed import xml_problem
from evalgate.scoring.criteria import BOUND, JsonCriterion, Rule, TextCriterion, available
from evalgate.scoring.rougescores import rouge
from evalgate.scoring.turnwise import mean_over_turns


class RougeThreshold(Rule):
    """What each of the three must reach."""

    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0


class RougeCriterion(Rule):
    """How many words the response shares with the expected one."""

    ignore: bool = False
    rouge_type: str = Field(default="", alias="rougeType")
    measure: str = ""
    """Which of the three the reason names first; all must reach their thresholds."""
    threshold: RougeThreshold = RougeThreshold()
    use_stemmer: bool = Field(default=False, alias="useStemmer")
    split_summaries: bool = Field(default=False, alias="splitSummaries")
    tokenizer_name: str = Field(default="", alias="tokenizerName")

    _is_available = field_validator("tokenizer_name")(available)

    def mismatch(self, actual: str, expected: str) -> str:
        """Why the criterion is not met; "" when it is."""
        if not self.rouge_type:
            return "rouge criterion requires rougeType"
        if self.measure not in {"", "f1", "precision", "recall"}:
            return f"unsupported rouge measure: {self.measure}"
        try:
            precision, recall, f1 = rouge(
                expected,
                actual,
                self.rouge_type,
                stemmed=self.use_stemmer,
                split_sentences=self.split_summaries,
            )
        except ValueError as error:
            return str(error)
        least = self.threshold
        if precision >= least.precision and recall >= least.recall and f1 >= least.f1:
            return ""
        measure = self.measure or "f1"
        value = {"f1": f1, "precision": precision, "recall": recall}[measure]
        return (
            f"{self.rouge_type} {measure}={value:.6f} "
            f"precision={precision:.6f} recall={recall:.6f} f1={f1:.6f}"
        )


class XmlCriterion(Rule):
    """Whether the response is XML; contents are not compared."""

    ignore: bool = False
    valid: bool = False
    match_strategy: str = Field(default="", alias="matchStrategy")

    def mismatch(self, actual: str) -> str:
        """Why the criterion is not met; "" when it is."""
        if not self.match_strategy:
            return "xml match strategy is empty"
        if self.match_strategy != "skip":
            return f"invalid match strategy {self.match_strategy}"
        return xml_problem(actual) if self.valid else ""


class ResponseCriterion(Rule):
    """All criteria that are named must be met; one at least must be named."""

    text: TextCriterion | None = None
    json_: JsonCriterion | None = Field(default=None, alias="json")
    rouge: RougeCriterion | None = None
    xml: XmlCriterion | None = None
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(available)

    def mismatch(self, actual: str | None, expected: str | None) -> str:
        """Why the responses do not match; "" when they do. None: there is no final response."""
        if not (self.text or self.json_ or self.rouge or self.xml):
            return "final response criterion must configure text, json, rouge, or xml"
        if actual is None:
            return "" if expected is None else "actual or expected final response is nil"
        return "; ".join(self._mismatches(actual, expected or ""))

    def _mismatches(self, actual: str, expected: str) -> Iterator[str]:
        if self.json_ and (fault := self.json_.mismatch_of_texts(actual, expected)):
            yield f"json mismatch: {fault}"
        if self.text and (fault := self.text.mismatch(actual, expected)):
            yield f"text mismatch: {fault}"
        if self.rouge and not self.rouge.ignore and (fault := self.rouge.mismatch(actual, expected)):
            yield f"rouge mismatch: {fault}"
        if self.xml and not self.xml.ignore and (fault := self.xml.mismatch(actual)):
            yield f"xml mismatch: {fault}"


class TrpcFinalResponse(Rule):
    """1.0 for each turn whose final response matches, else 0.0, averaged, as tRPC-Agent-Go computes it."""

    compares_with: ClassVar[Literal["response", "tools"]] = "response"
    is_mean_of_turns: ClassVar[Literal[True]] = True

    final_response: ResponseCriterion = Field(alias="finalResponse")
    tool_trajectory: Any = Field(default=None, alias="toolTrajectory")
    llm_judge: Any = Field(default=None, alias="llmJudge")

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """The metric of a criterion object of `.metrics.json`; criteria of other kinds are overlooked.

        Raises:
            ValidationError: an option is wrong, or names what is not there.
        """
        del context
        return cls.model_validate(criterion.options, context=BOUND)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. A turn that is missing or unasked scores 0.0."""
        return await mean_over_turns(case, run, self._turn)

    def _turn(self, turn: Turn, reply: Reply) -> TurnScore:
        fault = self.final_response.mismatch(reply.response, turn.expected.response)
        return TurnScore(0.0, f"final response mismatch: {fault}") if fault else TurnScore(1.0)
