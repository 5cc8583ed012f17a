"""Build the checks of single cases that case notes define. Case notes are a file next to an eval set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from evalgate.config.loader import parse_thresholds
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import MetricContext, MetricEnvironment
from evalgate.core.types import CaseChecks, CaseKey, EvalSet
from evalgate.documents.strict_json import Location
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.metric_binding import bind_metrics
from evalgate.runner.suites import Suite

_SCOPE_KEYS = ("ids", "tags")


def add_case_checks(
    suites: Sequence[Suite], thresholds: Thresholds, context: MetricContext, environment: MetricEnvironment
) -> tuple[Suite, ...]:
    """Return the suites with the checks in their case notes as further metrics, each for its own case.

    Raises:
        InvalidInputError: a check is wrong; the error lists every wrong check with its line in the notes.
    """
    problems = list[Problem]()
    found = []
    for suite in suites:
        note_thresholds = list(_iter_note_thresholds(suite.eval_set, thresholds, context, problems))
        metrics = _bind_checks(suite.eval_set, note_thresholds, context, environment, problems)
        own = tuple(each for _, each in note_thresholds)
        found.append(replace(suite, metrics=(*suite.metrics, *metrics), note_thresholds=own))
    if problems:
        raise InvalidInputError(sorted(problems))
    return tuple(found)


def _iter_note_thresholds(
    eval_set: EvalSet, thresholds: Thresholds, context: MetricContext, problems: list[Problem]
) -> Iterator[tuple[str, Thresholds]]:
    """Yield (id of the case, its checks as `Thresholds`) for each selected case with checks in its notes.

    Wrong checks are appended to `problems`. A case with checks that cannot be parsed is left out.
    """
    if eval_set.checks is None:
        return
    selected = None if eval_set.is_whole else {case.eval_id for case in eval_set.cases}
    folder = (context.workspace / eval_set.path).parent
    for eval_id, sections in eval_set.checks.sections.items():
        if selected is not None and eval_id not in selected:
            continue
        problems += _find_misplaced(eval_id, sections, eval_set.checks, thresholds)
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
        config = thresholds.config.model_copy(update={"checks": found.config.checks})
        yield eval_id, replace(found, config=config)


def _find_position(checks: CaseChecks, eval_id: str, location: Location) -> tuple[int, int]:
    return checks.find_position(("cases", eval_id, *location))


def _find_misplaced(
    eval_id: str, sections: Mapping[str, Mapping[str, object]], checks: CaseChecks, thresholds: Thresholds
) -> Iterator[Problem]:
    """Yield a problem for each check of a case with the name of a check in the thresholds file.

    Each key `ids` or `tags` is a problem, too: it selects cases, and a check in case notes is for its own
    case only. `sections` are the checks of the case `eval_id` by name.
    """
    for name, section in sections.items():
        place = ("cases", eval_id, "checks", name)
        if name in thresholds.config.checks:
            line, _ = thresholds.find_position(("checks", name))
            message = f"`checks.{name}` is also in {thresholds.file}:{line}: give one of the two another name"
            yield Problem(checks.file, *checks.find_position(place), message)
        for key in _SCOPE_KEYS:
            if key in section:
                message = (
                    f"`checks.{name}.{key}` belongs into a thresholds file: this check is for its case only"
                )
                yield Problem(checks.file, *checks.find_position((*place, key)), message)


def _bind_checks(
    eval_set: EvalSet,
    note_thresholds: Sequence[tuple[str, Thresholds]],
    context: MetricContext,
    environment: MetricEnvironment,
    problems: list[Problem],
) -> list[BoundMetric]:
    """Return a metric for each check. Equal checks of several cases share one metric.

    `note_thresholds` are pairs (id of the case, its checks as `Thresholds`). Wrong checks are appended to
    `problems`.
    """
    built: dict[tuple[str, str], BoundMetric] = {}
    cases: dict[tuple[str, str], set[CaseKey]] = {}
    for eval_id, thresholds in note_thresholds:
        sections = eval_set.checks.sections[eval_id] if eval_set.checks else {}
        keys = {f"check/{name}": (name, repr(section)) for name, section in sections.items()}
        new = tuple([each for each in thresholds.criteria if keys[each.metric] not in cases])
        for key in keys.values():
            cases.setdefault(key, set()).add((eval_set.eval_set_id, eval_id))
        try:
            bound = bind_metrics(replace(thresholds, criteria=new), context, environment)
        except InvalidInputError as error:
            # The other checks of this case get no metric either, unless an earlier case has an equal check.
            problems += error.problems
        else:
            built |= {keys[each.name]: each for each in bound}
    return [replace(each, cases=frozenset(cases[key])) for key, each in built.items()]
