"""Budgets. The section `budget` limits the consumption of all runs together; criteria limit each run."""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict, ValidationInfo, model_validator

from evalgate.core.score_ranges import UNLIMITED
from evalgate.core.types import Criterion

_PREFIX = "budget/"
_MAY_BE_ZERO = frozenset({"budget/tool_calls", "budget/model_calls", "budget/cost_usd"})
_WITHOUT_PERCENTILE = frozenset({"budget/turns"})
_OF_SCORES = ("min_mean", "max_regression")
_REPORTED_ONLY = frozenset({"budget/latency_s"})
"""Budgets that do not gate by default, because their figures depend on the machine."""

_LEAST_PERCENT = 5
"""Least `max_increase` that is refused, because it is probably meant as a percentage."""

Limit = Annotated[float, Strict(), Field(ge=0, lt=UNLIMITED, allow_inf_nan=False)]


class Budget(BaseModel):
    """Limits of what the whole run may use: agent, judges and simulated users together."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    usd: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Largest cost in US dollars, as far as prices are known; no limit when absent."""
    tokens: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Largest number of tokens, input and output together; no limit when absent."""
    minutes: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Largest duration of the run in minutes; no limit when absent."""


NO_BUDGET = Budget.model_construct()


class BudgetLimits(BaseModel):
    """Limits of a budget, in its unit, such as tokens or seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max: Limit | None = None
    """Largest mean of a case's runs with which the case passes. With `pass_hat_k`: limit of each run."""
    max_increase: Limit | None = None
    """Largest increase against the baseline that is allowed, as a share: 0.15 for 15 %. Only an increase that
    is more than luck closes the gate."""
    p95: Limit | None = None
    """Largest 95th percentile over all runs of all cases; it can be tested only with 59 runs or more."""

    @model_validator(mode="after")
    def _check_limits(self, info: ValidationInfo) -> Self:
        if self.max is None and self.max_increase is None and self.p95 is None:
            raise ValueError("must have `max`, `max_increase` or `p95`")
        if self.max_increase is not None and self.max_increase >= _LEAST_PERCENT:
            raise ValueError(
                f"has `max_increase: {self.max_increase:g}`, which allows {1 + self.max_increase:g} times as "
                "much: it is a share, and 0.15 allows 15 %"
            )
        if isinstance(info.context, Criterion):
            self._check_criterion(info.context)
        return self

    def _check_criterion(self, criterion: Criterion) -> None:
        for key in ("max", "p95"):
            if getattr(self, key) == 0 and criterion.metric not in _MAY_BE_ZERO:
                raise ValueError(f"has `{key}: 0`, which no run can keep")
        if self.p95 is not None and criterion.metric in _WITHOUT_PERCENTILE:
            raise ValueError("has `p95`, but the eval set decides how many turns a case has: use `max`")
        for key in _OF_SCORES:
            if getattr(criterion, key) is not None:
                raise ValueError(
                    f"has `{key}`, which is for scores: a budget has `max`, `max_increase` or `p95`"
                )
        if criterion.rule == "statistical":
            raise ValueError("has `threshold_rule: statistical`, which is for scores: use `max_increase`")
        if self.max is None and criterion.reliability is not None:
            raise ValueError("counts the runs that keep `max`, which is missing")
        if self.max is not None and criterion.threshold != self.max:
            raise ValueError(
                f"has the threshold {criterion.threshold:g} and `max: {self.max:g}`: use `max` alone"
            )


def is_budget(metric: str) -> bool:
    """Return True if a metric is a budget, such as `budget/cost_usd`: its scores are amounts used."""
    return metric.startswith(_PREFIX)


def complete_budgets(criteria: object) -> object:
    """Return the section `criteria`, not validated yet, with missing keys of budgets filled in.

    A budget that is a number becomes an object with the number as `threshold`. A missing `threshold` becomes
    `max`, or `UNLIMITED` if `max` is missing or no number. A missing `gates` becomes False for
    `budget/latency_s`, because seconds depend on the machine, and True for all other budgets. A section that
    is not a mapping is returned unchanged.
    """
    if not isinstance(criteria, Mapping):
        return criteria
    return {name: _complete_budget(str(name), value) for name, value in criteria.items()}


def convert_case_limits(criteria: object) -> object:
    """Return the value of `criteria` in an entry of `cases`, with `{max: 6}` for a budget converted to 6.

    An object with other keys than `max` stays. A value that is not a mapping is returned unchanged.
    """
    if not isinstance(criteria, Mapping):
        return criteria
    limits = {
        name: value["max"]
        for name, value in criteria.items()
        if is_budget(str(name)) and isinstance(value, Mapping) and set(value) == {"max"}
    }
    return {**criteria, **limits}


def _complete_budget(name: str, value: JsonValue) -> object:
    if not is_budget(name):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = {"threshold": value}
    if not isinstance(value, Mapping):
        return value
    most = value.get("max")
    is_valid = isinstance(most, int | float) and not isinstance(most, bool) and isfinite(most)
    return {"threshold": most if is_valid else UNLIMITED, "gates": name not in _REPORTED_ONLY, **value}
