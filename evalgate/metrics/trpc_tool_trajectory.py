"""`trpc/tool_trajectory_avg_score`: whether the right tools were called and answered."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from evalgate.model import CaseRun, Criterion, EvalCase, MetricFailed, MetricResult, Reply, Turn, TurnScore
from evalgate.protocols import MetricContext
from evalgate.scoring.callindex import CallIndex
from evalgate.scoring.criteria import BOUND, JsonCriterion, Rule, TextCriterion, available
from evalgate.scoring.matching import unmatched
from evalgate.scoring.toolrecords import ToolRecord, tool_records
from evalgate.scoring.turnwise import mean_over_turns


class ToolStrategy(Rule):
    """What of two calls is compared: only the parts that are named here."""

    name: TextCriterion | None = None
    arguments: JsonCriterion | None = None
    result: JsonCriterion | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_2025(cls, value: object) -> object:
        return (
            {_RENAMED.get(key, key): each for key, each in value.items()}
            if isinstance(value, dict)
            else value
        )

    def mismatch(self, actual: ToolRecord, expected: ToolRecord) -> str:
        """Why the calls do not match; "" when they do."""
        if self.name is not None and (fault := self.name.mismatch(actual.name, expected.name)):
            return f"name mismatch: {fault}"
        if self.arguments is not None and (
            fault := self.arguments.mismatch(actual.arguments, expected.arguments)
        ):
            return f"arguments mismatch: {fault}"
        if self.result is not None and (fault := self.result.mismatch(actual.result, expected.result)):
            return f"result mismatch: {fault}"
        return ""


_RENAMED = {"response": "result"}  # until December 2025
_BUILT_IN = ToolStrategy(name=TextCriterion(), arguments=JsonCriterion(), result=JsonCriterion())


class TrajectoryCriterion(Rule):
    """How the calls of a turn are compared."""

    default_strategy: ToolStrategy = Field(default=_BUILT_IN, alias="defaultStrategy")
    tool_strategy: dict[str, ToolStrategy] = Field(default_factory=dict, alias="toolStrategy")
    """By the name of the actual tool, else of the expected one, instead of the default: nothing is merged."""
    order_sensitive: bool = Field(default=False, alias="orderSensitive")
    subset_matching: bool = Field(default=False, alias="subsetMatching")
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(available)

    @model_validator(mode="before")
    @classmethod
    def _of_2025(cls, value: object) -> object:
        """Until December 2025 order counted unless `orderInsensitive` said otherwise."""
        if not isinstance(value, Mapping) or not _is_of_2025(value):
            return value
        rest = {key: each for key, each in value.items() if key != _OLD_ORDER}
        return {**rest, "orderSensitive": not value.get(_OLD_ORDER, False)}

    def mismatch(self, actual: Sequence[ToolRecord], expected: Sequence[ToolRecord]) -> str:
        """Why the calls do not match; "" when they do."""
        if not actual and not expected:
            return ""
        given, wanted = len(actual), len(expected)
        if given < wanted or (given > wanted and not self.subset_matching):
            sign = "<" if self.subset_matching else "!="
            return (
                "validate tool counts: number of tool calls mismatch: "
                f"actual({given}) {sign} expected({wanted})"
            )
        fault = self._in_order(actual, expected) if self.order_sensitive else self._paired(actual, expected)
        return fault and f"match tools: {fault}"

    def _strategy(self, actual: ToolRecord, expected: ToolRecord) -> ToolStrategy:
        own = self.tool_strategy.get(actual.name) or self.tool_strategy.get(expected.name)
        return own or self.default_strategy

    def _difference(self, actual: ToolRecord, expected: ToolRecord) -> str:
        fault = self._strategy(actual, expected).mismatch(actual, expected)
        if not fault:
            return ""
        return (
            f"actual tool {actual.id} named {actual.name} mismatch with "
            f"expected tool {expected.id} named {expected.name}: {fault}"
        )

    def _in_order(self, actual: Sequence[ToolRecord], expected: Sequence[ToolRecord]) -> str:
        rest = iter(actual)
        for wanted in expected:
            fault = ""
            for given in rest:
                fault = self._difference(given, wanted)
                if not fault:
                    break
            else:
                return f"{_named(wanted)} mismatch{fault and ': '}{fault}"
        return ""

    def _paired(self, actual: Sequence[ToolRecord], expected: Sequence[ToolRecord]) -> str:
        order: Sequence[int] = range(len(actual))
        candidates = [range(len(actual))] * len(expected)
        strategy = self.default_strategy
        if not self.tool_strategy and _is_indexable(strategy):
            index = CallIndex(actual, strategy.arguments.number_tolerance if strategy.arguments else 0.0)
            order, candidates = index.order, [index.candidates(wanted) for wanted in expected]

        def fits(left: int, right: int) -> bool:
            given, wanted = actual[order[right]], expected[left]
            return not self._strategy(given, wanted).mismatch(given, wanted)

        lacking = unmatched(candidates, fits)
        if not lacking:
            return ""
        faults = [self._explained(expected[left], actual) for left in lacking[:_MOST_EXPLAINED]]
        return "; ".join(["cannot match all left vertices", *faults])

    def _explained(self, wanted: ToolRecord, actual: Sequence[ToolRecord]) -> str:
        """Names a call without a partner, and how the first call of the same tool differs from it."""
        near = (self._difference(given, wanted) for given in actual if given.name == wanted.name)
        fault = next(filter(None, near), "")
        return f"{_named(wanted)} mismatch{fault and ': '}{fault}"


_OLD_ORDER = "orderInsensitive"
_MOST_EXPLAINED = 3


def _is_of_2025(criterion: Mapping[str, Any]) -> bool:
    own = criterion.get("toolStrategy")
    strategies = [criterion.get("defaultStrategy"), *(own.values() if isinstance(own, Mapping) else ())]
    return _OLD_ORDER in criterion or any(
        isinstance(each, Mapping) and _RENAMED.keys() & each.keys() for each in strategies
    )


def _is_indexable(strategy: ToolStrategy) -> bool:
    name, arguments = strategy.name, strategy.arguments
    return (
        name is not None
        and name.compares_whole_names
        and arguments is not None
        and arguments.compares_whole_values
    )


def _named(call: ToolRecord) -> str:
    return f"tool id {call.id} with name {call.name}"


class TrpcToolTrajectory(Rule):
    """1.0 for each turn whose tool calls match, else 0.0, averaged, as tRPC-Agent-Go computes it."""

    compares_with: ClassVar[Literal["response", "tools"]] = "tools"
    is_mean_of_turns: ClassVar[Literal[True]] = True

    tool_trajectory: TrajectoryCriterion = Field(alias="toolTrajectory")
    final_response: Any = Field(default=None, alias="finalResponse")
    llm_judge: Any = Field(default=None, alias="llmJudge")

    @property
    def allows_extra_calls(self) -> bool:
        """See `AllowsExtraCalls`."""
        return self.tool_trajectory.subset_matching

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
        try:
            return await mean_over_turns(case, run, self._turn)
        except RecursionError:
            return MetricFailed("the arguments or results of a tool call are nested too deep to be compared")

    def _turn(self, turn: Turn, reply: Reply) -> TurnScore:
        fault = self.tool_trajectory.mismatch(tool_records(reply), tool_records(turn.expected))
        return TurnScore(0.0, f"tool trajectory mismatch: {fault}") if fault else TurnScore(1.0)
