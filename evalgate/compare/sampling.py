"""Which runs are made: a fixed number of every case, or as many as the comparison needs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from evalgate.compare.tables import StatisticalPolicy, row_name, tables
from evalgate.frozen import frozen
from evalgate.model import Baseline, CaseResult
from evalgate.statistics.auto import NextRuns, conclude, next_step
from evalgate.statistics.fixed import decide
from evalgate.statistics.results import Decision

Wanted: TypeAlias = Mapping[int, Sequence[int]]
"""Index of a case → numbers (1-based) of the runs that it still needs."""


@frozen
class Sampling:
    """Says what to run next, from what was run so far; holds no state."""

    policy: StatisticalPolicy
    baseline: Baseline | None

    @property
    def is_auto(self) -> bool:
        """Whether the number of runs is found out on the way."""
        return self.policy.parameters.runs is None

    def first(self, cases: int) -> Wanted:
        """What is run in any event."""
        numbers = range(1, (self.policy.parameters.runs or 1) + 1)
        return dict.fromkeys(range(cases), numbers)

    def next(self, results: Callable[[], Sequence[CaseResult]]) -> Wanted:
        """What is run after that; empty when enough is known."""
        if not self.is_auto:
            return {}
        cases = results()
        found = tables(cases, self.baseline, self.policy)
        step = next_step(found, self.policy.parameters) if found else None
        if not isinstance(step, NextRuns):
            return {}
        index = {row_name(case): at for at, case in enumerate(cases)}
        return {index[name]: numbers for name, numbers in step.runs.items()}

    def decision(self, results: Sequence[CaseResult]) -> Decision | None:
        """What the runs say, even those of a run that ended early; None when no metric can be judged."""
        found = tables(results, self.baseline, self.policy)
        if not found:
            return None
        return (conclude if self.is_auto else decide)(found, self.policy.parameters)
