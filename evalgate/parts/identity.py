"""What a run is a run of, as short texts: two runs can be put together only when these are equal."""

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from platform import python_version_tuple

from evalgate.model import PlanId
from evalgate.parts.sources import code_state, unkept_state
from evalgate.plan import Plan
from evalgate.score import BoundMetric
from evalgate.simulation.settings import USER_SETTINGS, UserConfig

_HOW_FAST = {"workers", "concurrency", "timeout", "requests_per_minute", "ramp_up", "retries"}
"""What says nothing of what the agent answers."""


def plan_id(plan: Plan) -> PlanId:
    """The identity of a plan, with the state of the agent's code as it is now: equal on every machine."""
    return PlanId(
        eval_sets=_digest(chain([plan.runs], _cases(plan))),
        thresholds=_digest([_metrics(plan), plan.policy.model_dump(mode="json"), _users(plan)]),
        agent=_digest([_agent(plan), code_state(plan.workspace.folder, _own_files(plan))]),
    )


def plan_id_here(plan: Plan) -> PlanId:
    """The same with what another machine need not have: code that git does not keep, and our Python."""
    everywhere, folder = plan_id(plan), plan.workspace.folder
    unkept = unkept_state(folder, named=_named_files(plan), beside=_own_files(plan))
    return replace(everywhere, agent=_digest([everywhere.agent, unkept, python_version_tuple()[:2]]))


def plan_parts(plan: Plan) -> dict[str, str]:
    """Return what a plan is made of, by its name: what differs between two of them can be said.

    Numbers stand as they are; all else, which may hold a secret, as a digest. The code is no part of it.
    """
    settings = {f"`agent.{name}`": value for name, value in _agent(plan).items() if name != "what"}
    parts: dict[str, object] = {"`--agent`": plan.agent.what, **settings}
    for suite in plan.suites:
        heads = zip(suite.eval_set.heads, suite.fingerprints, strict=True)
        parts[f"the cases of {suite.eval_set.path}"] = _digest([head.eval_id, each] for head, each in heads)
        for metric in suite.metrics:
            name = f"the criterion `{metric.name}`{f' in {metric.scope}' if metric.scope else ''}"
            parts[name] = [parts.get(name), _held_to([metric])]
    policy = plan.policy.model_dump(mode="json")
    parts |= {f"`gate.{name}`": value for name, value in policy.items()}
    parts["`cases` rules"] = [own for _, own in _metrics(plan)]
    parts["the simulated user"] = _users(plan)
    plain = {"`runs`": str(plan.runs), "Python": ".".join(python_version_tuple()[:2])}
    return plain | {name: _digest([value]) for name, value in parts.items()}


def _named_files(plan: Plan) -> list[Path]:
    """Files that the agent's command line names, or its recording."""
    try:
        words = shlex.split(plan.agent.what)
    except ValueError:
        words = [plan.agent.what]
    return [plan.workspace.folder / word for word in words]


def _own_files(plan: Plan) -> list[Path]:
    """Thresholds files: what counts in them stands elsewhere in the identity, and a `budget` may be raised.

    Not a pyproject.toml, which says what the agent needs.
    """
    names = {plan.thresholds_file, *(suite.rules.file for suite in plan.suites)} - {""}
    return [plan.workspace.folder / name for name in sorted(names) if Path(name).name != "pyproject.toml"]


def _users(plan: Plan) -> list[object]:
    said = [plan.user, *(suite.rules.config.user for suite in plan.suites)]
    return [_played(plan, user) for user in said if user is not None]


def _played(plan: Plan, user: UserConfig) -> list[object]:
    model = user.model_config_for(plan.bench.config)
    asked = [model.provider, model.model, model.base_url, model.parameters()] if model is not None else []
    return [user.model_dump(mode="json", include=set(USER_SETTINGS)), asked]


def _cases(plan: Plan) -> Iterator[object]:
    return (
        [suite.eval_set.eval_set_id, case.eval_id, fingerprint]
        for suite in plan.suites
        for case, fingerprint in zip(suite.eval_set.heads, suite.fingerprints, strict=True)
    )


def _metrics(plan: Plan) -> list[tuple[object, object]]:
    return [
        (
            _held_to(suite.metrics),
            [
                _held_to(suite.metrics_of(case))
                for case in suite.eval_set.heads
                if suite.policy(case).thresholds
            ],
        )
        for suite in plan.suites
    ]


def _held_to(metrics: Sequence[BoundMetric]) -> list[object]:
    return [
        [each.name, each.fingerprint, each.criterion.threshold, each.criterion.min_mean, each.scope]
        for each in metrics
    ]


def _agent(plan: Plan) -> Mapping[str, object]:
    settings = plan.agent.settings
    return settings.model_dump(mode="json", exclude=_HOW_FAST) | {"what": plan.agent.what}


def _digest(values: Iterable[object]) -> str:
    found = hashlib.sha256()
    for value in values:  # one by one: there may be hundreds of thousands
        found.update(_encode(value).encode(errors="surrogatepass") + b"\n")
    return found.hexdigest()[:16]


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode
