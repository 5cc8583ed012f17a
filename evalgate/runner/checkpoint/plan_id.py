"""Identify a plan and the agent's code: two runs are combined only when these are equal."""

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from platform import python_version_tuple

from evalgate.config.schema.judge import USER_SETTINGS, UserConfig
from evalgate.core.types import PlanId
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.plan import Plan
from evalgate.system.files import read_file
from evalgate.system.git import git, git_bytes

_SOURCE = frozenset(
    {".c", ".cjs", ".cs", ".go", ".java", ".js", ".kt", ".mjs", ".php", ".py", ".rb", ".rs", ".sh", ".ts"}
)
_OTHERS_CODE = frozenset({"__pycache__", "node_modules", "site-packages"})
_DIGITS = 16


def code_state(folder: Path, beside: Sequence[Path] = ()) -> str:
    """16 hexadecimal digits over what git has checked out in `folder` and what differs from it.

    Where git keeps nothing: over the source files there. `beside`: files that do not count.
    """
    top = git(folder, "rev-parse", "--show-toplevel")
    paths = [":(top)", *_left_out(Path(top), beside)] if top else []
    kept = git_bytes(folder, "ls-files", "--stage", "-z", "--", *paths) if top else b""
    if not kept:
        return _digest(_files(folder, _sources(folder), beside))
    return _digest(
        [kept, git_bytes(folder, "diff", "--binary", "--no-ext-diff", "--no-textconv", "--", *paths)]
    )


def unkept_state(folder: Path, named: Sequence[Path] = (), beside: Sequence[Path] = ()) -> str:
    """The same over the source files that git neither keeps nor ignores, and over those that are `named`."""
    said = git_bytes(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = sorted(folder / os.fsdecode(name) for name in said.split(b"\0") if name)
    unkept = [name for name in names if name.suffix in _SOURCE]
    return _digest(_files(folder, [*named, *unkept], beside))


def _left_out(top: Path, beside: Iterable[Path]) -> Iterator[str]:
    found = (path.resolve() for path in beside)
    return (f":(top,exclude,literal){path.relative_to(top)}" for path in found if path.is_relative_to(top))


def _sources(folder: Path) -> Iterator[Path]:
    """Source files in `folder`, without hidden folders and those of installed packages, in a fixed order."""
    for place, folders, names in os.walk(folder):
        inner = (each for each in folders if not each.startswith(".") and each not in _OTHERS_CODE)
        folders[:] = sorted(each for each in inner if not Path(place, each, "pyvenv.cfg").exists())
        yield from (Path(place, name) for name in sorted(names) if Path(name).suffix in _SOURCE)


def _files(folder: Path, paths: Iterable[Path], beside: Sequence[Path]) -> Iterator[bytes]:
    left_out = {path.resolve() for path in beside}
    for path in paths:
        if path.resolve() not in left_out and path.is_file():
            yield os.fsencode(os.path.relpath(path, folder))
            yield _content(path)


def _content(path: Path) -> bytes:
    try:
        return hashlib.sha256(read_file(path)).digest()
    except OSError:  # what we cannot read
        return b""


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]


_HOW_FAST = {"workers", "concurrency", "timeout", "requests_per_minute", "ramp_up", "retries"}
"""What says nothing of what the agent answers."""


def plan_id(plan: Plan) -> PlanId:
    """The identity of a plan, with the state of the agent's code as it is now: equal on every machine."""
    return PlanId(
        eval_sets=_hash_parts(chain([plan.runs], _cases(plan))),
        thresholds=_hash_parts([_metrics(plan), plan.policy.model_dump(mode="json"), _users(plan)]),
        agent=_hash_parts([_agent(plan), code_state(plan.workspace.folder, _own_files(plan))]),
    )


def plan_id_here(plan: Plan) -> PlanId:
    """The same with what another machine need not have: code that git does not keep, and our Python."""
    everywhere, folder = plan_id(plan), plan.workspace.folder
    unkept = unkept_state(folder, named=_named_files(plan), beside=_own_files(plan))
    return replace(everywhere, agent=_hash_parts([everywhere.agent, unkept, python_version_tuple()[:2]]))


def plan_parts(plan: Plan) -> dict[str, str]:
    """Return what a plan is made of, by its name: what differs between two of them can be said.

    Numbers stand as they are; all else, which may hold a secret, as a digest. The code is no part of it.
    """
    settings = {f"`agent.{name}`": value for name, value in _agent(plan).items() if name != "what"}
    parts: dict[str, object] = {"`--agent`": plan.agent.what, **settings}
    for suite in plan.suites:
        heads = zip(suite.eval_set.heads, suite.fingerprints, strict=True)
        parts[f"the cases of {suite.eval_set.path}"] = _hash_parts(
            [head.eval_id, each] for head, each in heads
        )
        for metric in suite.metrics:
            name = f"the criterion `{metric.name}`{f' in {metric.scope}' if metric.scope else ''}"
            parts[name] = [parts.get(name), _held_to([metric])]
    policy = plan.policy.model_dump(mode="json")
    parts |= {f"`gate.{name}`": value for name, value in policy.items()}
    parts["`cases` rules"] = [own for _, own in _metrics(plan)]
    parts["the simulated user"] = _users(plan)
    plain = {"`runs`": str(plan.runs), "Python": ".".join(python_version_tuple()[:2])}
    return plain | {name: _hash_parts([value]) for name, value in parts.items()}


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


def _hash_parts(values: Iterable[object]) -> str:
    found = hashlib.sha256()
    for value in values:  # one by one: there may be hundreds of thousands
        found.update(_encode(value).encode(errors="surrogatepass") + b"\n")
    return found.hexdigest()[:16]


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode
