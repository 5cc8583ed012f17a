"""Build the checks that case notes have for single cases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from evalgate.config.loader import parse_thresholds
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import MetricContext, MetricEnvironment
from evalgate.core.types import CaseChecks, CaseKey, EvalSet
from evalgate.documents.validation_errors import Location
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.metric_binding import bind_metrics
from evalgate.runner.suites import Suite

_SCOPE_KEYS = ("ids", "tags")


def add_case_checks(
    suites: Sequence[Suite], rules: Thresholds, context: MetricContext, environment: MetricEnvironment
) -> tuple[Suite, ...]:
    """Return the suites with the checks of their case notes added, each check for its own case only.

    Raises:
        InvalidInputError: with every wrong check, at its line in the notes.
    """
    problems = list[Problem]()
    found = []
    for suite in suites:
        case_rules = list(_iter_case_rules(suite.eval_set, rules, context, problems))
        metrics = _bind_checks(suite.eval_set, case_rules, context, environment, problems)
        own = tuple(each for _, each in case_rules)
        found.append(replace(suite, metrics=(*suite.metrics, *metrics), case_rules=own))
    if problems:
        raise InvalidInputError(sorted(problems))
    return tuple(found)


def _iter_case_rules(
    eval_set: EvalSet, rules: Thresholds, context: MetricContext, problems: list[Problem]
) -> Iterator[tuple[str, Thresholds]]:
    """Yield the id and the checks of each selected case that has checks.

    Wrong checks are appended to `problems`; a case with checks that cannot be parsed is left out.
    """
    if eval_set.checks is None:
        return
    selected = None if eval_set.is_whole else {case.eval_id for case in eval_set.cases}
    folder = (context.workspace / eval_set.path).parent
    for eval_id, sections in eval_set.checks.sections.items():
        if selected is not None and eval_id not in selected:
            continue
        problems += _find_misplaced(eval_id, sections, eval_set.checks, rules)
        try:
            found = parse_thresholds(
                {"checks": sections},
                folder,
                eval_set.checks.file,
                partial(_find_position, eval_set.checks, eval_id),
            )
        except InvalidInputError as error:
            problems += error.problems
            continue
        config = rules.config.model_copy(update={"checks": found.config.checks})
        yield eval_id, replace(found, config=config)


def _find_position(checks: CaseChecks, eval_id: str, location: Location) -> tuple[int, int]:
    return checks.find_position(("cases", eval_id, *location))


def _find_misplaced(
    eval_id: str, sections: Mapping[str, Mapping[str, object]], checks: CaseChecks, rules: Thresholds
) -> Iterator[Problem]:
    """Yield a problem for each check with a name from the thresholds file, and each key `ids` or `tags`."""
    for name, section in sections.items():
        place = ("cases", eval_id, "checks", name)
        if name in rules.config.checks:
            line, _ = rules.find_position(("checks", name))
            message = f"`checks.{name}` is also in {rules.file}:{line}: give one of the two another name"
            yield Problem(checks.file, *checks.find_position(place), message)
        for key in _SCOPE_KEYS:
            if key in section:
                message = (
                    f"`checks.{name}.{key}` belongs into a thresholds file: this check is for its case only"
                )
                yield Problem(checks.file, *checks.find_position((*place, key)), message)


def _bind_checks(
    eval_set: EvalSet,
    case_rules: Sequence[tuple[str, Thresholds]],
    context: MetricContext,
    environment: MetricEnvironment,
    problems: list[Problem],
) -> list[BoundMetric]:
    """Return the metrics of all checks; equal checks of several cases are one metric.

    Wrong checks are appended to `problems`. If a case has a wrong check, its other checks get no metric,
    unless an earlier case has an equal check.
    """
    built: dict[tuple[str, str], BoundMetric] = {}
    cases: dict[tuple[str, str], set[CaseKey]] = {}
    for eval_id, rules in case_rules:
        sections = eval_set.checks.sections[eval_id] if eval_set.checks else {}
        keys = {f"check/{name}": (name, repr(section)) for name, section in sections.items()}
        new = tuple([each for each in rules.criteria if keys[each.metric] not in cases])
        for key in keys.values():
            cases.setdefault(key, set()).add((eval_set.eval_set_id, eval_id))
        try:
            bound = bind_metrics(replace(rules, criteria=new), context, environment)
        except InvalidInputError as error:
            problems += error.problems
        else:
            built |= {keys[each.name]: each for each in bound}
    return [replace(each, cases=frozenset(cases[key])) for key, each in built.items()]
