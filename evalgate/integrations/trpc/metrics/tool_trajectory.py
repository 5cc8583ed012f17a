"""`trpc/tool_trajectory_avg_score`: compare the tool calls and their results with the expected ones."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    MetricFailure,
    MetricResult,
    Reply,
    TurnScore,
)
from evalgate.integrations.trpc.json_comparison import as_double, is_number
from evalgate.integrations.trpc.value_criteria import (
    GoModel,
    JsonCriterion,
    TextCriterion,
    TrpcTurnMetric,
    refuse_registered_name,
)
from evalgate.metrics.tool_call_matching import ToolRecord, collect_tool_records
from evalgate.metrics.turnwise import compute_turn_mean


def find_unmatched_indices(candidates: Sequence[range], fits: Callable[[int, int], bool]) -> tuple[int, ...]:
    """Pair as many indices with partners as possible. Return the indices that stay without a partner.

    `candidates` lists the possible partners of each index, and `fits(index, partner)` tests a pair. If not
    all indices can have a partner, earlier indices are preferred. The algorithm is H. W. Kuhn's augmenting
    paths (1955), with `fits` called only when it is needed. The memory is linear in the numbers of indices
    and partners.
    """
    return _BipartiteMatching(candidates, fits).find_unmatched()


class _BipartiteMatching:
    def __init__(self, candidates: Sequence[range], fits: Callable[[int, int], bool]) -> None:
        self._candidates = candidates
        self._fits = fits
        self._owner: dict[int, int] = {}
        self._dead: set[int] = set()
        """Partners that a failed search reached: no later search can succeed through them."""
        self._start: dict[range, int] = {}
        """Number of taken partners at the front of each range, so that they are skipped at once."""

    def find_unmatched(self) -> tuple[int, ...]:
        return tuple([left for left in range(len(self._candidates)) if not self._assign_partner(left)])

    def _assign_partner(self, left: int) -> bool:
        free = self._find_free_partner(left)
        if free is not None:
            self._owner[free] = left
            return True
        return self._augment_path(left)

    def _find_free_partner(self, left: int) -> int | None:
        options = self._candidates[left]
        at = self._start.get(options, 0)
        while at < len(options) and options[at] in self._owner:
            at += 1
        self._start[options] = at
        for index in range(at, len(options)):
            right = options[index]
            if right not in self._owner and self._fits(left, right):
                return right
        return None

    def _augment_path(self, root: int) -> bool:
        """Assign a partner to `root` by moving other partners; return False if that is impossible.

        The search is depth first, without recursion. `path` holds each index on the current path, with its
        untried candidates, and `taken` the partner that was chosen for it.
        """
        seen: set[int] = set()
        path: list[tuple[int, Iterator[int]]] = [(root, iter(self._candidates[root]))]
        taken: list[int] = []
        while path:
            left, rest = path[-1]
            right = next(
                (
                    each
                    for each in rest
                    if each not in seen and each not in self._dead and self._fits(left, each)
                ),
                None,
            )
            if right is None:
                path.pop()
                if taken:
                    taken.pop()
                continue
            seen.add(right)
            taken.append(right)
            owner = self._owner.get(right)
            if owner is None:
                for (vertex, _), partner in zip(path, taken, strict=True):
                    self._owner[partner] = vertex
                return True
            path.append((owner, iter(self._candidates[owner])))
        self._dead |= seen
        return False


_CallKey: TypeAlias = tuple[str, Hashable]
# The range of candidates around a number is widened by this share of the number, because a subtraction may
# round. The share does not decide whether two calls match.
_ROUNDING = 1e-9


class CallIndex:
    """Index of calls, to find quickly the few calls that a given call may equal.

    Calls are grouped by their name and by their arguments, in which all numbers count as the same. Each group
    is sorted by the first number in the arguments. In two equal calls, the first numbers differ by at most
    the tolerance, so a binary search finds the candidates.
    """

    def __init__(self, calls: Sequence[ToolRecord], tolerance: float) -> None:
        self._tolerance = tolerance
        groups: dict[_CallKey, list[tuple[float, int]]] = {}
        for at, call in enumerate(calls):
            groups.setdefault(_get_call_key(call), []).append((_find_first_number(call.arguments), at))
        self.order: list[int] = []
        """Position in `calls` of each call of the index."""
        self._blocks: dict[_CallKey, tuple[int, list[float]]] = {}
        for key, members in groups.items():
            members.sort()
            self._blocks[key] = (len(self.order), [number for number, _ in members])
            self.order += [at for _, at in members]

    def find_candidates(self, call: ToolRecord) -> range:
        """Return the positions in the index of all calls that may equal `call`."""
        start, numbers = self._blocks.get(_get_call_key(call), (0, []))
        if next(_find_numbers(call.arguments), None) is None:
            return range(start, start + len(numbers))
        number = _find_first_number(call.arguments)
        reach = self._tolerance + abs(number) * _ROUNDING
        first, last = bisect_left(numbers, number - reach), bisect_right(numbers, number + reach)
        return range(start + first, start + max(first, last))


def _get_call_key(call: ToolRecord) -> _CallKey:
    return call.name, _get_argument_shape(call.arguments)


def _get_argument_shape(value: object) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset([(key, _get_argument_shape(each)) for key, each in value.items()])
    if isinstance(value, list):
        return tuple([_get_argument_shape(each) for each in value])
    return int if is_number(value) else (type(value), value)


def _find_numbers(value: object) -> Iterator[float]:
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _find_numbers(value[key])
    elif isinstance(value, list):
        for each in value:
            yield from _find_numbers(each)
    elif is_number(value):
        yield as_double(value)


def _find_first_number(value: object) -> float:
    number = next(_find_numbers(value), 0.0)
    return number if number == number else 0.0  # noqa: PLR0124  NaN equals nothing, and would not sort


class ToolStrategy(GoModel):
    """Criteria for the name, arguments and result of calls; a part without a criterion is not compared."""

    name: TextCriterion | None = None
    arguments: JsonCriterion | None = None
    result: JsonCriterion | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_2025_keys(cls, value: object) -> object:
        return (
            {_RENAMED.get(key, key): each for key, each in value.items()}
            if isinstance(value, dict)
            else value
        )

    def find_mismatch(self, actual: ToolRecord, expected: ToolRecord) -> str:
        """Return the reason why the calls do not match, or "" if they do.

        Raises:
            ComparerResultError: a function of the user in a criterion returned no bool.
            RegexEngineMissingError: a pattern has to be read and `google-re2` is not installed.
            SchemaValidatorMissingError: there is a schema, and `jsonschema` is not installed.
            RecursionError: arguments or results are nested too deep.
        """
        if self.name is not None and (fault := self.name.find_mismatch(actual.name, expected.name)):
            return f"name mismatch: {fault}"
        if self.arguments is not None and (
            fault := self.arguments.find_mismatch(actual.arguments, expected.arguments)
        ):
            return f"arguments mismatch: {fault}"
        if self.result is not None and (fault := self.result.find_mismatch(actual.result, expected.result)):
            return f"result mismatch: {fault}"
        return ""


_RENAMED = {"response": "result"}  # until December 2025
_BUILT_IN = ToolStrategy(name=TextCriterion(), arguments=JsonCriterion(), result=JsonCriterion())


class TrajectoryCriterion(GoModel):
    """Rules for comparing the calls of a turn."""

    default_strategy: ToolStrategy = Field(default=_BUILT_IN, alias="defaultStrategy")
    tool_strategy: dict[str, ToolStrategy] = Field(default_factory=dict, alias="toolStrategy")
    """Strategies by tool name. If the actual and the expected call name different tools, the strategy of the
    actual tool is preferred. A strategy replaces the default strategy as a whole; nothing is merged."""
    order_sensitive: bool = Field(default=False, alias="orderSensitive")
    subset_matching: bool = Field(default=False, alias="subsetMatching")
    compare_name: str = Field(default="", alias="compareName")

    _is_available = field_validator("compare_name")(refuse_registered_name)

    @model_validator(mode="before")
    @classmethod
    def _accept_2025_keys(cls, value: object) -> object:
        # Until December 2025 order counted unless `orderInsensitive` was set.
        if not isinstance(value, Mapping) or not _has_2025_keys(value):
            return value
        rest = {key: each for key, each in value.items() if key != _OLD_ORDER}
        return {**rest, "orderSensitive": not value.get(_OLD_ORDER, False)}

    def find_mismatch(self, actual: Sequence[ToolRecord], expected: Sequence[ToolRecord]) -> str:
        """Return the reason why the calls do not match, or "" if they do.

        Raises:
            ComparerResultError: a function of the user in a criterion returned no bool.
            RegexEngineMissingError: a pattern has to be read and `google-re2` is not installed.
            SchemaValidatorMissingError: there is a schema, and `jsonschema` is not installed.
            RecursionError: arguments or results are nested too deep.
        """
        # Checked first: without any call even an invalid strategy passes, as in tRPC-Agent-Go.
        if not actual and not expected:
            return ""
        given, wanted = len(actual), len(expected)
        if given < wanted or (given > wanted and not self.subset_matching):
            sign = "<" if self.subset_matching else "!="
            return (
                "validate tool counts: number of tool calls mismatch: "
                f"actual({given}) {sign} expected({wanted})"
            )
        fault = (
            self._match_in_order(actual, expected)
            if self.order_sensitive
            else self._match_any_order(actual, expected)
        )
        return fault and f"match tools: {fault}"

    def _get_strategy(self, actual: ToolRecord, expected: ToolRecord) -> ToolStrategy:
        # A strategy is taken as it is: one without `arguments` compares none, whatever the default says.
        own = self.tool_strategy.get(actual.name) or self.tool_strategy.get(expected.name)
        return own or self.default_strategy

    def _describe_difference(self, actual: ToolRecord, expected: ToolRecord) -> str:
        fault = self._get_strategy(actual, expected).find_mismatch(actual, expected)
        if not fault:
            return ""
        return (
            f"actual tool {actual.id} named {actual.name} mismatch with "
            f"expected tool {expected.id} named {expected.name}: {fault}"
        )

    def _match_in_order(self, actual: Sequence[ToolRecord], expected: Sequence[ToolRecord]) -> str:
        # Greedy, without a second try: each expected call takes the next actual call that matches it.
        rest = iter(actual)
        for wanted in expected:
            fault = ""
            for given in rest:
                fault = self._describe_difference(given, wanted)
                if not fault:
                    break
            else:
                return f"{_format_tool(wanted)} mismatch{fault and ': '}{fault}"
        return ""

    def _match_any_order(self, actual: Sequence[ToolRecord], expected: Sequence[ToolRecord]) -> str:
        order: Sequence[int] = range(len(actual))
        candidates = [range(len(actual))] * len(expected)
        strategy = self.default_strategy
        if not self.tool_strategy and _is_indexable(strategy):
            # Comparing each pair takes quadratic time; the index leaves only calls that may be equal.
            index = CallIndex(actual, strategy.arguments.number_tolerance if strategy.arguments else 0.0)
            order, candidates = index.order, [index.find_candidates(wanted) for wanted in expected]

        def is_match(left: int, right: int) -> bool:
            given, wanted = actual[order[right]], expected[left]
            return not self._get_strategy(given, wanted).find_mismatch(given, wanted)

        lacking = find_unmatched_indices(candidates, is_match)
        if not lacking:
            return ""
        faults = [self._explain_missing(expected[left], actual) for left in lacking[:_MOST_EXPLAINED]]
        return "; ".join(["cannot match all left vertices", *faults])

    def _explain_missing(self, wanted: ToolRecord, actual: Sequence[ToolRecord]) -> str:
        """Return a sentence about `wanted`, an expected call to which no actual call could be assigned.

        If the agent called the same tool, the sentence ends with the first difference from such a call.
        """
        near = (self._describe_difference(given, wanted) for given in actual if given.name == wanted.name)
        fault = next(filter(None, near), "")
        return f"{_format_tool(wanted)} mismatch{fault and ': '}{fault}"


_OLD_ORDER = "orderInsensitive"
_MOST_EXPLAINED = 3


def _has_2025_keys(criterion: Mapping[str, Any]) -> bool:
    own = criterion.get("toolStrategy")
    strategies = [criterion.get("defaultStrategy"), *(own.values() if isinstance(own, Mapping) else ())]
    return _OLD_ORDER in criterion or any(
        isinstance(each, Mapping) and _RENAMED.keys() & each.keys() for each in strategies
    )


def _is_indexable(strategy: ToolStrategy) -> bool:
    name, arguments = strategy.name, strategy.arguments
    return (
        name is not None
        and name.requires_equal_texts
        and arguments is not None
        and arguments.compares_every_key
    )


def _format_tool(call: ToolRecord) -> str:
    return f"tool id {call.id} with name {call.name}"


class TrpcToolTrajectory(TrpcTurnMetric):
    """1.0 for each turn with matching tool calls, else 0.0, averaged, as tRPC-Agent-Go computes it."""

    compares_with: ClassVar[Literal["response", "tools"]] = "tools"

    tool_trajectory: TrajectoryCriterion = Field(alias="toolTrajectory")
    final_response: Any = Field(default=None, alias="finalResponse")
    llm_judge: Any = Field(default=None, alias="llmJudge")

    @property
    def allows_extra_calls(self) -> bool:
        """Return True if `subsetMatching` is set, so that the agent may make further calls."""
        return self.tool_trajectory.subset_matching

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]. A turn that is missing or unexpected scores 0.0.

        The result is not applicable for a case without turns, such as a case with a simulated user. The
        metric fails if arguments or results nest too deep.

        Raises:
            ComparerResultError: a function of the user in a criterion returned no bool.
        """
        try:
            return await compute_turn_mean(case, run, self._score_turn)
        except RecursionError:
            return MetricFailure("the arguments or results of a tool call are nested too deep to be compared")

    def _score_turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        fault = self.tool_trajectory.find_mismatch(
            collect_tool_records(reply), collect_tool_records(turn.expected)
        )
        return TurnScore(0.0, f"tool trajectory mismatch: {fault}") if fault else TurnScore(1.0)
