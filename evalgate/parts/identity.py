"""What a run is a run of, as short texts: two runs can be put together only when these are equal."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from evalgate.model import PlanId
from evalgate.plan import Plan
from evalgate.score import BoundMetric
from evalgate.system.checkout import git, git_bytes

_HOW_FAST = {"workers", "concurrency", "timeout", "requests_per_minute", "ramp_up", "retries"}
"""What says nothing of what the agent answers."""


def plan_id(plan: Plan) -> PlanId:
    """The identity of a plan, with the state of the agent's code as it is now."""
    return PlanId(
        eval_sets=_digest([_cases(plan), plan.runs]),
        thresholds=_digest([_metrics(plan), plan.policy.model_dump(mode="json")]),
        agent=_digest([_agent(plan), code_state(plan.workspace.folder)]),
    )


def _cases(plan: Plan) -> list[object]:
    return [
        [suite.eval_set.eval_set_id, case.eval_id, fingerprint]
        for suite in plan.suites
        for case, fingerprint in zip(suite.eval_set.cases, suite.fingerprints, strict=True)
    ]


def _metrics(plan: Plan) -> list[object]:
    return [
        [
            _held_to(suite.metrics),
            [
                _held_to(suite.metrics_of(case))
                for case in suite.eval_set.cases
                if suite.policy(case).thresholds
            ],
        ]
        for suite in plan.suites
    ]


def _held_to(metrics: Sequence[BoundMetric]) -> list[object]:
    return [[each.name, each.fingerprint, each.criterion.threshold, each.scope] for each in metrics]


def _agent(plan: Plan) -> Mapping[str, object]:
    settings = plan.agent.settings
    return settings.model_dump(mode="json", exclude=_HOW_FAST) | {"what": plan.agent.what}


def code_state(folder: Path) -> str:
    """The commit that is checked out in `folder` and what differs from it; "" where git knows nothing."""
    commit = git(folder, "rev-parse", "HEAD")
    if not commit:
        return ""
    changes = git_bytes(folder, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv")
    return f"{commit} {_digest(changes.hex())}"


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
