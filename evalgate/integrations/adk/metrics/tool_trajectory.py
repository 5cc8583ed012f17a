"""`tool_trajectory_avg_score`: compare the agent's tool calls with the expected ones."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    Reply,
    TurnScore,
)
from evalgate.metrics.tool_call_matching import TOO_DEEP, ToolCallComparator
from evalgate.metrics.turnwise import compute_turn_mean

_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")


def _normalize_match_type(value: object) -> object:
    if isinstance(value, str):
        return value.strip().upper().replace("-", "_").replace(" ", "_")
    # Google ADK's enumeration counts from 0, and takes 1.0 and true for 1.
    numbers: dict[object, str] = dict(enumerate(_MATCH_TYPES))
    return numbers.get(value, value) if isinstance(value, (int, float)) else value


MatchType: TypeAlias = Annotated[
    Literal["EXACT", "IN_ORDER", "ANY_ORDER"], BeforeValidator(_normalize_match_type)
]
"""EXACT: the expected calls in this order, and no others. IN_ORDER: the expected calls in this order; others
may come before, between and after them. ANY_ORDER: the expected calls in any order; others may be among
them. Names are read in upper and lower case, with `-` or a blank for `_`; 0, 1 and 2 stand for the names."""


class ToolTrajectory(BaseModel):
    """1.0 for each turn with matching tool calls, else 0.0, averaged over turns, as Google ADK computes it.

    Calls match when name and arguments are equal as in Python: 1 == 1.0 == true, and the order of keys does
    not count. Missing arguments differ from an empty object. Ids are not compared.
    """

    compares_with: ClassVar[Literal["response", "tools"]] = "tools"
    is_mean_of_turns: ClassVar[Literal[True]] = True

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
    )

    match_type: MatchType = "EXACT"
    ignore_args: bool = False
    """True: compare only the names of calls. False: compare the arguments, too."""
    include_intermediate_responses_in_final: bool = Field(default=False, exclude=True)
    """Accepted because Google ADK accepts it in every criterion. It has no effect, as in Google ADK."""

    @property
    def allows_extra_calls(self) -> bool:
        """Return True for IN_ORDER and ANY_ORDER, which allow calls beyond the expected ones."""
        return self.match_type != "EXACT"

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric as the context's release of Google ADK computes it.

        Releases before 2.9 have no `ignore_args`: for these releases the option is ignored.

        Raises:
            ValidationError: an option is wrong.
        """
        metric = cls.model_validate(criterion.options)
        return metric if context.adk_release >= (2, 9) else metric.model_copy(update={"ignore_args": False})

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]. A turn that is missing or unexpected scores 0.0.

        The result is not applicable for a case without turns, such as a case with a simulated user. The
        metric fails if arguments nest too deep.
        """
        try:
            return await compute_turn_mean(case, run, self._score_turn)
        except RecursionError:
            return MetricFailure(TOO_DEEP)

    def _score_turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        expected, actual = turn.expected.tool_calls, reply.tool_calls
        comparison = ToolCallComparator(self.ignore_args)
        match self.match_type:
            case "EXACT":
                divergence = comparison.compare_exact(expected, actual)
            case "IN_ORDER":
                divergence = comparison.compare_in_order(expected, actual)
            case "ANY_ORDER":
                divergence = comparison.compare_any_order(expected, actual)
        return TurnScore(0.0, divergence) if divergence else TurnScore(1.0)
