"""Score a check: 1.0 if all of its conditions hold for a run, else 0.0 with a reason."""

import time
from collections.abc import Iterator, Sequence

from evalgate.config.schema.checks import CheckConditions, Conditions
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import Metric, MetricContext
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    JsonObject,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
)
from evalgate.documents.strict_json import parse_json
from evalgate.metrics.checks.alternatives import (
    AlternativesCondition,
    Condition,
    ConditionGroup,
    NoneOfCondition,
    collect_faults,
)
from evalgate.metrics.checks.files import FilesCondition
from evalgate.metrics.checks.responses import ResponseCondition
from evalgate.metrics.checks.tools import ArgumentsCondition, ToolsCondition
from evalgate.metrics.checks.transcript import (
    LATEST,
    Transcript,
)
from evalgate.metrics.checks.values import StateCondition
from evalgate.metrics.tool_call_matching import TOO_DEEP
from evalgate.system.files import read_input_file

_PASSED = MetricScore(1.0)
_LISTED = 20


class Check:
    """Metric of a check: 1.0 if every condition holds for a run, else 0.0; the reason is the first fault."""

    options_type = CheckConditions

    def __init__(self, conditions: CheckConditions, context: MetricContext) -> None:
        self._options: JsonObject = conditions.model_dump(mode="json", exclude_unset=True)
        self._condition = _build_group(conditions, context, time.time())

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Metric:
        """Build the check that `criterion` describes: a `Check`, or a `JudgedCheck` if a model is needed.

        Raises:
            ValidationError: a condition is unknown or wrong, or names a file that cannot be used.
            JudgeNotConfiguredError: a condition needs a judge, and none is configured.
        """

        def read_schema(path: str) -> object:
            return _read_schema(path, context)

        conditions = CheckConditions.model_validate(dict(criterion.options), context=read_schema)
        check = cls(conditions, context)
        if not conditions.needs_model:
            return check
        from evalgate.metrics.checks.judged import JudgedCheck

        return JudgedCheck.build_judged(check, conditions, context)

    def describe_options(self) -> JsonObject:
        """Return the conditions as JSON, with the contents of the files that they name."""
        return self._options

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score of a run, 0.0 or 1.0, with the first fault as the reason.

        A run without a reply to a turn scores 0.0. Return `NotApplicable` if a condition does not apply, and
        no other condition has a fault. Return `MetricFailure` if arguments are nested too deep.
        """
        return self.score_transcript(LATEST.get_transcript(case, run))

    def score_transcript(self, transcript: Transcript) -> MetricResult:
        """Return the score of the run in `transcript`, 0.0 or 1.0, with the first fault as the reason.

        Return `NotApplicable` if a condition does not apply, and no other condition has a fault. Return
        `MetricFailure` if arguments are nested too deep.

        Raises:
            QuestionPendingError: a model has to be asked first.
        """
        if transcript.missing:
            return MetricScore(0.0, reason=transcript.missing)
        try:
            faults, lacking = collect_faults(self._condition, transcript)
        except RecursionError:
            return MetricFailure(TOO_DEEP)
        if lacking is not None and not faults:
            return NotApplicable(str(lacking))
        return _build_failure(faults) if faults else _PASSED


def _build_failure(faults: Sequence[str]) -> MetricScore:
    if len(faults) == 1:
        return MetricScore(0.0, reason=faults[0])
    reason = f"{faults[0]} (and {len(faults) - 1} more)"
    return MetricScore(0.0, reason=reason, details={"faults": list(faults[:_LISTED])})


def _build_group(conditions: Conditions, context: MetricContext, since: float) -> Condition:
    found = tuple(_build_conditions(conditions, context, since))
    is_single = len(found) == 1 and conditions.turn is None
    return found[0] if is_single else ConditionGroup(found, conditions.turn)


def _build_conditions(rule: Conditions, context: MetricContext, since: float) -> Iterator[Condition]:
    if rule.tools is not None:
        yield ToolsCondition(rule.tools)
    for tool, rules in (rule.args or {}).items():
        yield ArgumentsCondition(tool, rules, rule.calls)
    if rule.response is not None:
        yield ResponseCondition(rule.response)
    if rule.state is not None:
        yield StateCondition(rule.state)
    if rule.files is not None:
        yield FilesCondition(rule.files, context.workspace, since, is_recording=context.is_recording)
    if isinstance(rule, CheckConditions) and rule.alternatives:
        yield AlternativesCondition([_build_group(each, context, since) for each in rule.alternatives])
    if isinstance(rule, CheckConditions) and rule.none_of:
        yield NoneOfCondition([_build_group(each, context, since) for each in rule.none_of])


def _read_schema(path: str, context: MetricContext) -> object:
    """Return the JSON Schema in the file at `path`, which is relative to the thresholds file.

    Raises:
        ValueError: the file cannot be read, is no JSON, or is not a regular file.
    """
    try:
        data = read_input_file(context.locate(context.folder / path), path)
        return parse_json(data, path).value
    except OSError as error:
        raise ValueError(f"names the file {path!r}, which cannot be read: {error.strerror}") from None
    except InvalidInputError as error:
        # A ValueError, because pydantic collects it with the other problems of the check.
        problems = "; ".join(map(str, error.problems[:_LISTED]))
        raise ValueError(f"names a file that cannot be used: {problems}") from None
