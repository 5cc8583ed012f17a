"""Compute the identity (digests) of a plan and the agent's code.

Runs are combined, by resuming or by merging shards, only if their identities are equal.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from json.encoder import encode_basestring
from pathlib import Path
from platform import python_version_tuple

from pydantic import BaseModel

from evalgate.config.schema.judge import USER_SETTINGS, UserConfig
from evalgate.core.types import PlanId
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.plan import Plan
from evalgate.runner.suites import Suite
from evalgate.system.files import is_virtual_environment, read_file
from evalgate.system.git import run_git, run_git_bytes

_SOURCE_SUFFIXES = frozenset(
    {".c", ".cjs", ".cs", ".go", ".java", ".js", ".kt", ".mjs", ".php", ".py", ".rb", ".rs", ".sh", ".ts"}
)
_INSTALLED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_DIGITS = 16

_MOST_NAMED = 8
"""Maximum number of differing parts of a plan that one message names."""

_DIGEST_LENGTH = 16
"""Length of a digest in characters. Messages show only shorter values, which are no digests."""

_FIELD_NAMES = {
    "eval_sets": "the eval sets, or how often they are run,",
    "thresholds": "the thresholds file",
    "agent": "the agent, its code, or the version of Python,",
}
"""Name in messages of each field of a plan's identity."""


def hash_code_state(folder: Path, excluded: Sequence[Path] = ()) -> str:
    """Return a hash of 16 hexadecimal digits over the tracked files of the repository that contains `folder`.

    Local changes count. Files in `excluded` do not count. Without git, hash the source files in `folder`.
    """
    top = run_git(folder, "rev-parse", "--show-toplevel")
    inside = [path.resolve() for path in excluded if top and path.resolve().is_relative_to(top)]
    paths = [":(top)", *(f":(top,exclude,literal){path.relative_to(top)}" for path in inside)]
    kept = run_git_bytes(folder, "ls-files", "--stage", "-z", "--", *paths) if top else b""
    if not kept:
        return _hash_parts(_iter_file_contents(folder, _iter_source_files(folder), excluded))
    return _hash_parts(
        [kept, run_git_bytes(folder, "diff", "--binary", "--no-ext-diff", "--no-textconv", "--", *paths)]
    )


def hash_untracked_state(folder: Path, named: Sequence[Path] = (), excluded: Sequence[Path] = ()) -> str:
    """Return a hash of 16 hexadecimal digits over the files in `named`, and over untracked source files.

    The source files are those in `folder`, except files that git ignores. Files in `excluded` do not count,
    even if `named` has them.
    """
    listed = run_git_bytes(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = sorted(folder / os.fsdecode(name) for name in listed.split(b"\0") if name)
    untracked = [name for name in names if name.suffix in _SOURCE_SUFFIXES]
    return _hash_parts(_iter_file_contents(folder, [*named, *untracked], excluded))


def _iter_source_files(folder: Path) -> Iterator[Path]:
    """Yield the source files below `folder` in a fixed order; skip hidden folders and installed packages."""
    for parent, folders, names in os.walk(folder):
        inner = (each for each in folders if not each.startswith(".") and each not in _INSTALLED_FOLDERS)
        folders[:] = sorted(each for each in inner if not is_virtual_environment(Path(parent, each)))
        yield from (Path(parent, name) for name in sorted(names) if Path(name).suffix in _SOURCE_SUFFIXES)


def _iter_file_contents(folder: Path, paths: Iterable[Path], excluded: Sequence[Path]) -> Iterator[bytes]:
    left_out = {path.resolve() for path in excluded}
    for path in paths:
        if path.is_file() and path.resolve() not in left_out:
            yield os.fsencode(os.path.relpath(path, folder))
            yield _hash_content(path)


def _hash_content(path: Path) -> bytes:
    try:
        return hashlib.sha256(read_file(path)).digest()
    except OSError:  # an unreadable file counts by its name alone
        return b""


def _hash_parts(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]


_NEUTRAL_SETTINGS = {
    "workers",
    "concurrency",
    "timeout",
    "requests_per_minute",
    "ramp_up",
    "retries",
    "trace",
    "track_files",
}
"""Settings that do not influence the agent's answers."""


def compute_plan_id(plan: Plan) -> PlanId:
    """Compute the identity of a plan with the agent's tracked code; it is the same on every machine."""
    cases = chain.from_iterable(_encode_cases(suite, suite.eval_set.eval_set_id) for suite in plan.suites)
    return PlanId(
        eval_sets=_hash_lines(chain([_encode(plan.runs)], cases)),
        thresholds=_hash_values([_collect_metrics(plan), _list_settings(plan.gate), _collect_users(plan)]),
        agent=_hash_values(
            [
                _collect_agent_settings(plan),
                hash_code_state(plan.workspace.folder, _list_config_files(plan)),
                *([plan.varied] if plan.varied else ()),
            ]
        ),
    )


def compute_local_plan_id(plan: Plan) -> PlanId:
    """Compute the identity of a plan for this machine, which also covers untracked code and Python's version.

    Of Python's version only the major and minor number count.
    """
    portable, folder = compute_plan_id(plan), plan.workspace.folder
    untracked = hash_untracked_state(folder, named=_list_named_files(plan), excluded=_list_config_files(plan))
    return replace(portable, agent=_hash_values([portable.agent, untracked, python_version_tuple()[:2]]))


def compute_part_digests(plan: Plan) -> dict[str, str]:
    """Return a value for each part of a plan, so that a message can list the parts in which two plans differ.

    Keys are names for messages, such as `gate.max_regression` in backticks. The values for the number of runs
    and for Python's version are plain. All other values are digests, because these parts may hold a secret.
    The agent's code has no entry.
    """
    settings = {
        f"`agent.{name}`": value for name, value in _collect_agent_settings(plan).items() if name != "what"
    }
    parts: dict[str, object] = {"`--agent`": plan.agent.name, **settings}
    for suite in plan.suites:
        parts[f"the cases of {suite.eval_set.path}"] = _hash_lines(_encode_cases(suite))
        for metric in suite.metrics:
            name = f"the criterion `{metric.name}`{f' in {metric.scope}' if metric.scope else ''}"
            parts[name] = [parts.get(name), _collect_thresholds([metric])]
    parts |= {f"`gate.{name}`": value for name, value in _list_settings(plan.gate).items()}
    parts |= {f"`--vary {name}`": value for name, value in plan.varied.items()}
    parts["`cases` rules"] = [own for _, own in _collect_metrics(plan)]
    parts["the simulated user"] = _collect_users(plan)
    plain = {"`runs`": str(plan.runs), "Python": ".".join(python_version_tuple()[:2])}
    return plain | {name: _hash_values([value]) for name, value in parts.items()}


def _list_settings(section: BaseModel) -> dict[str, object]:
    """Return the settings of a section by name, with nested sections as dicts."""
    # For plain values this is faster than `model_dump`, which takes 1 ms.
    return {name: _list_settings(value) if isinstance(value, BaseModel) else value for name, value in section}


def _list_named_files(plan: Plan) -> list[Path]:
    """Return each word of the agent's name or command as a path, because it may be a file of the agent."""
    try:
        words = shlex.split(plan.agent.name)
    except ValueError:
        words = [plan.agent.name]
    return [plan.workspace.folder / word for word in words]


def _list_config_files(plan: Plan) -> list[Path]:
    """Return the paths of the thresholds files, to leave them out of the hash of the agent's code.

    Their settings have a hash of their own, except `budget`, which may be raised before `--resume`. A
    pyproject.toml is not returned, so it counts as code: it lists the agent's dependencies.
    """
    names = {plan.thresholds_file, *(suite.thresholds.file for suite in plan.suites)} - {""}
    return [plan.workspace.folder / name for name in sorted(names) if Path(name).name != "pyproject.toml"]


def _collect_users(plan: Plan) -> list[object]:
    configs = [plan.user_config, *(suite.thresholds.config.user for suite in plan.suites)]
    return [_collect_user_settings(plan, user) for user in configs if user is not None]


def _collect_user_settings(plan: Plan, user: UserConfig) -> list[object]:
    model = user.resolve_model_config(plan.judge_resolver.config)
    asked = (
        [model.provider, model.model, model.base_url, model.build_parameters()] if model is not None else []
    )
    return [user.model_dump(mode="json", include=set(USER_SETTINGS)), asked]


def _encode_cases(suite: Suite, *names: str) -> Iterator[str]:
    """Yield the text to hash for each case: a JSON list of `names`, the case's id and its fingerprint."""
    start = "".join([f"{encode_basestring(name)}, " for name in names])
    for case, fingerprint in zip(suite.eval_set.cases, suite.fingerprints, strict=True):
        yield f'[{start}{encode_basestring(case.eval_id)}, "{fingerprint}"]'


def _collect_metrics(plan: Plan) -> list[tuple[object, object]]:
    return [
        (
            _collect_thresholds(suite.metrics),
            [
                _collect_thresholds(suite.get_metrics(case))
                for case in suite.eval_set.cases
                if suite.get_case_policy(case).thresholds
            ],
        )
        for suite in plan.suites
    ]


def _collect_thresholds(metrics: Sequence[BoundMetric]) -> list[object]:
    return [
        [
            *(each.name, each.fingerprint, each.criterion.threshold, each.criterion.min_mean, each.scope),
            *([sorted(each.cases)] if each.cases is not None else ()),
        ]
        + ([] if each.criterion.gates else [False])
        for each in metrics
    ]


def _collect_agent_settings(plan: Plan) -> Mapping[str, object]:
    settings = _list_settings(plan.agent.settings)
    return {name: value for name, value in settings.items() if name not in _NEUTRAL_SETTINGS} | {
        "what": plan.agent.name
    }


def _hash_values(values: Iterable[object]) -> str:
    return _hash_lines(map(_encode, values))


def _hash_lines(lines: Iterable[str]) -> str:
    found = hashlib.sha256()
    for line in lines:  # one by one: there may be hundreds of thousands
        found.update(line.encode(errors="surrogatepass") + b"\n")
    return found.hexdigest()[:16]


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


def describe_changes(then: Mapping[str, object], now: PlanId) -> Iterator[str]:
    """Yield a phrase for messages, such as `the thresholds file`, for each field that differs.

    `then` is the identity in the journal, as JSON, and `now` the identity of the present plan.
    """
    current = asdict(now)
    return (what for key, what in _FIELD_NAMES.items() if then.get(key) != current[key])


def describe_changed_parts(then: object, now: Mapping[str, str]) -> Iterator[str]:
    """Yield the name of each part in which two plans differ, with both values if they are short.

    After `_MOST_NAMED` names, a last text such as `3 more` counts the other parts. `then` is the JSON value
    with the parts in the journal. Yield nothing if the parts of one of the plans are not known.
    """
    if not isinstance(then, dict) or not then or not now:
        return
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    for name in names[:_MOST_NAMED]:
        old, new = (str(side.get(name, "none")) for side in (then, now))
        is_plain = max(len(old), len(new)) < _DIGEST_LENGTH
        yield f"{name} ({old} then, {new} now)" if is_plain else name
    if len(names) > _MOST_NAMED:
        yield f"{len(names) - _MOST_NAMED:,} more"
