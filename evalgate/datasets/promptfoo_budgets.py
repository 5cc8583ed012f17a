"""Assertions of promptfoo on cost and latency, converted to budgets."""

from collections.abc import Mapping, Sequence
from typing import cast

from evalgate.core.types import JsonObject
from evalgate.datasets.promptfoo_values import NotCarriedError

BUDGETS: Mapping[str, str] = {"cost": "budget/cost_usd", "latency": "budget/latency_s"}
"""Type of an assertion to the metric."""
_MILLISECONDS = 1000.0


def convert_budget(kind: str, assertion: Mapping[str, object]) -> JsonObject:
    """Return the criterion of an assertion on a cost in US dollars or a latency.

    A latency is in milliseconds in promptfoo, and in seconds in the criterion.

    Raises:
        NotCarriedError: the assertion has no limit above 0.
    """
    limit = assertion.get("threshold")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit <= 0:
        raise NotCarriedError("with no `threshold` above 0")
    return {"max": limit if kind == "cost" else limit / _MILLISECONDS, "gates": assertion.get("weight") != 0}


def merge_budgets(
    ids: Sequence[str], limits_of: Sequence[Mapping[str, JsonObject]]
) -> tuple[dict[str, JsonObject], list[JsonObject]]:
    """Return the criteria with the highest limits, and rules for the cases with lower limits.

    `limits_of` has the budgets of each case. A budget that a case lacks is left out, because a criterion
    limits every case.
    """
    criteria: dict[str, JsonObject] = {}
    rules: list[JsonObject] = []
    for name in find_common_budgets(limits_of):
        limits = [float(cast("float", each[name]["max"])) for each in limits_of]
        most = max(limits)
        criteria[name] = {"max": most, "gates": any(each[name]["gates"] for each in limits_of)}
        for limit in sorted({*limits} - {most}):
            own = [case_id for case_id, found in zip(ids, limits, strict=True) if found == limit]
            rules.append({"ids": own, "criteria": {name: limit}})
    return criteria, rules


def find_common_budgets(limits_of: Sequence[Mapping[str, JsonObject]]) -> list[str]:
    """Return the budgets that every case has."""
    return [name for name in BUDGETS.values() if limits_of and all(name in each for each in limits_of)]
