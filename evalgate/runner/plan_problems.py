"""Errors that the parts of a plan share: those of the thresholds file, and those of its judges."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from evalgate.agents.factory import find_agent_problems
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import InvalidThresholdsError
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.llm.judge_resolver import JudgeResolver
from evalgate.runner.metric_binding import find_criterion_problems


@dataclass
class LoadedRules:
    """Thresholds file as far as it was read."""

    rules: Thresholds | None = None


@contextmanager
def collect_all_problems(overrides: Overrides) -> Iterator[LoadedRules]:
    """Add all problems of the thresholds file to an error, so that users can fix them in one go.

    Without this, the first error would end the check: each section is checked by the code that uses it, one
    section after the other.
    """
    known = LoadedRules()
    try:
        yield known
    except InvalidInputError as error:
        rules = error.rest if isinstance(error, InvalidThresholdsError) else known.rules
        if rules is None or not (rules.file or rules.criteria):
            raise
        agent = apply_overrides(rules.config, overrides).agent
        more = [
            *find_agent_problems(agent, overrides.kind_and_what[1], rules),
            *find_criterion_problems(rules),
        ]
        if not set(more) - set(error.problems):
            raise
        raise InvalidInputError(sorted({*error.problems, *more})) from None


def check_judges(judge_resolver: JudgeResolver, rules: Thresholds) -> None:
    """Raise the error of a judge that could not be asked, before anything runs."""
    try:
        judge_resolver.judges.check_reserved()
    except InvalidInputError as error:
        where = rules.find_position(("judge",)) if rules.config.judge else (0, 0)
        file = rules.file if rules.config.judge else ""
        raise InvalidInputError(Problem(file, *where, found.message) for found in error.problems) from None
