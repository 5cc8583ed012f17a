"""Complete the error of a plan with the problems of the agent and the criteria.

So users can fix all problems at once. Otherwise they would see only the problems of one section of the
thresholds file, because each section is checked by the code that uses the section.
"""

from evalgate.agents.factory import find_agent_problems
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import InvalidThresholdsError
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.runner.metric_binding import find_criterion_problems


def add_agent_and_criteria_problems(
    error: InvalidInputError, thresholds: Thresholds | None, overrides: Overrides
) -> InvalidInputError:
    """Return the error with the problems of the agent and the criteria in the thresholds file added.

    If there are no such problems, return `error`. `thresholds` is None if the file could not be read.
    """
    # An error in a thresholds file, of the plan or of a suite, carries the valid rest of the file.
    if isinstance(error, InvalidThresholdsError):
        thresholds = error.rest
    if thresholds is None or not (thresholds.file or thresholds.criteria):
        return error
    agent = apply_overrides(thresholds.config, overrides).agent
    more = [
        *find_agent_problems(agent, overrides.agent_name, thresholds),
        *find_criterion_problems(thresholds),
    ]
    if not set(more) - set(error.problems):
        return error
    return InvalidInputError(sorted({*error.problems, *more}))
