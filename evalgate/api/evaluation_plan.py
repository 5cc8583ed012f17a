"""Turn the arguments of the Python library into the plan of an evaluation: its cases, agent and settings."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from evalgate.agents.adapters.in_process import InProcessOptions, describe_object
from evalgate.agents.factory import AgentSpec
from evalgate.api.arguments import check_arguments, rename_options
from evalgate.config.cli_overrides import Overrides, SelectionOptions
from evalgate.config.loader import parse_thresholds
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core import plugin_registry
from evalgate.core.case_objects import find_wrong_cases
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.loading import load_eval_sets, parse_eval_set
from evalgate.documents.validation_errors import describe_error_details
from evalgate.runner.plan import Plan, build_plan
from evalgate.runner.suites import GivenObjects


@frozen
class EvaluationOptions:
    """Arguments of an evaluation, as for `evalgate.evaluate`.

    If an argument is None, the value in the thresholds file applies, or else the default.
    """

    criteria: Mapping[str, object] | None = None
    thresholds: str | Path | Mapping[str, object] | None = None
    runs: int | Literal["auto"] | None = None
    baseline: str | Path | None = None
    concurrency: int | None = None
    timeout: float | None = None
    judge: str | None = None
    env: Sequence[str] = ()
    format: str | None = None
    folder: str | Path = "."
    built_thresholds: Thresholds | None = None
    """Parsed thresholds, used instead of `criteria`, `checks` and `thresholds`."""
    scores: bool = True
    """False: the agent is run, but nothing is scored."""
    trace: bool = False
    """True: the record stores a trace of each run."""
    checks: Mapping[str, object] | None = None
    tags: Sequence[str] = ()
    k: str | None = None


def build_evaluation_plan(eval_sets: object, agent: object, options: EvaluationOptions) -> Plan:
    """Check the arguments, load the eval sets, and return the plan that `evaluate_plan` runs.

    Raises:
        InvalidInputError: the input is invalid; the error lists every problem found.
    """
    _check_options(options)
    folder = Path(options.folder)
    patterns, objects = split_sources(eval_sets, options.format)
    is_spec = agent is None or isinstance(agent, str)
    overrides = Overrides(
        eval_sets=patterns,
        agent=agent if isinstance(agent, str) else None,
        runs=options.runs,
        concurrency=options.concurrency if is_spec else None,
        timeout=options.timeout if is_spec else None,
        baseline=None if options.baseline is None else str(options.baseline),
        judge=options.judge,
        env=tuple(options.env) if is_spec else (),
        format=options.format,
        trace=options.trace and is_spec,
        selection_options=SelectionOptions(tuple(options.tags), options.k),
    )
    given = GivenObjects(
        objects,
        None if is_spec else agent if isinstance(agent, AgentSpec) else build_agent_spec(agent, options),
        options.built_thresholds or _build_thresholds(options, folder),
        options.scores,
    )
    thresholds = options.thresholds
    path = str(thresholds) if isinstance(thresholds, str | Path) else None
    with rename_options():
        return build_plan(overrides, thresholds_file=path, folder=folder, environ=os.environ, objects=given)


def _check_options(options: EvaluationOptions) -> None:
    names = (
        "criteria",
        "checks",
        "thresholds",
        "runs",
        "baseline",
        "concurrency",
        "timeout",
        "judge",
        "env",
        "format",
        "folder",
        "tags",
        "k",
    )
    check_arguments({name: getattr(options, name) for name in names}, required=frozenset({"folder"}))


def load_sources(sources: object, format_name: str | None, folder: Path) -> tuple[EvalSet, ...]:
    """Load eval sets from files and objects. The eval sets of files come first.

    Raises:
        InvalidInputError: an object or a file is invalid. The error lists the problems of the first invalid
            object. If all objects are valid, it lists the problems of all files.
    """
    patterns, objects = split_sources(sources, format_name)
    formats = plugin_registry.get_formats()
    loaded = load_eval_sets(patterns, formats, folder=folder, format_name=format_name) if patterns else ()
    return (*loaded, *objects)


def split_sources(sources: object, format_name: str | None) -> tuple[tuple[str, ...], tuple[EvalSet, ...]]:
    """Separate files from objects. Return the patterns of the files, and the eval sets of the objects.

    All `EvalCase` objects are put into one eval set with the id `cases`, which comes first.

    Raises:
        InvalidInputError: an object is not a valid eval set, two objects have the same id, or a case of an
            object is wrong, such as a case without an id.
    """
    listed = list_sources(sources)
    patterns = tuple(str(each) for each in listed if isinstance(each, str | Path))
    cases = tuple(each for each in listed if isinstance(each, EvalCase))
    sets = [EvalSet("cases", cases)] if cases else []
    for index, each in enumerate(listed):
        if not isinstance(each, str | Path | EvalCase):
            sets.append(_read_object(each, f"eval_sets[{index}]", format_name))
    repeated = [name for name, count in Counter(each.eval_set_id for each in sets).items() if count > 1]
    problems = [f"eval_sets: {name!r} is the id of several eval sets; give each its own" for name in repeated]
    problems += [message for each in sets for message in find_wrong_cases(each.eval_set_id, each.cases)]
    if problems:
        raise InvalidInputError(Problem("", 0, 0, message) for message in problems)
    return patterns, tuple(sets)


def list_sources(sources: object) -> list[object]:
    """Return `sources`, which is a list of eval sets or a single eval set, as a list of eval sets.

    A mapping is an eval set if it has the key `eval_set_id` or `eval_cases`, also in camelCase. If a list or
    tuple has any other mapping, it is not a list of eval sets. It is one eval set in an old format of Google
    ADK, a list of turns or cases, and becomes the only element of the result.

    >>> list_sources(["a.json", "b.json"])
    ['a.json', 'b.json']
    >>> list_sources(({"query": "Hi", "reference": "Hello"}, {"query": "Bye", "reference": "Bye"}))
    [[{'query': 'Hi', 'reference': 'Hello'}, {'query': 'Bye', 'reference': 'Bye'}]]
    """
    if not isinstance(sources, list | tuple):
        return [sources]
    is_set = any(
        isinstance(each, Mapping)
        and not {"eval_set_id", "evalSetId", "eval_cases", "evalCases"} & each.keys()
        for each in sources
    )
    return [list(sources)] if is_set else list(sources)


def _read_object(source: object, name: str, format_name: str | None) -> EvalSet:
    if isinstance(source, EvalSet):
        return source
    dump = getattr(source, "model_dump", None)
    value = dump(mode="json") if callable(dump) else source
    if not isinstance(value, Mapping | list):
        raise InvalidInputError(
            f"{name}: a {type(source).__name__} is no eval set. Give a path, an `evalgate.EvalSet`, decoded "
            "JSON, or an `EvalSet` of Google ADK; one or a list."
        )
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name}: is no JSON: {error}") from None
    return parse_eval_set(value, plugin_registry.get_formats(), shown_as=name, format_name=format_name)


def build_agent_spec(agent: object, options: EvaluationOptions) -> AgentSpec:
    """Build the specification of an agent that is a Python object in this process.

    Raises:
        InvalidInputError: the concurrency or the timeout is invalid.
    """
    return AgentSpec(
        build_agent_config("in_process", options), InProcessOptions(agent), describe_object(agent)
    )


def build_agent_config(kind: str, options: EvaluationOptions) -> AgentConfig:
    """Build the agent settings that all kinds of agents share: concurrency, timeout and trace.

    Raises:
        InvalidInputError: the concurrency or the timeout is invalid.
    """
    given = {
        "concurrency": options.concurrency,
        "timeout": options.timeout,
        "trace": options.trace or None,
    }
    try:
        return AgentConfig.model_validate(
            {"kind": kind, **{key: value for key, value in given.items() if value is not None}}
        )
    except ValidationError as error:
        raise InvalidInputError(
            Problem("", 0, 0, f"`{found['loc'][0]}` {describe_error_details(found)}")
            for found in error.errors()
        ) from None


def _build_thresholds(options: EvaluationOptions, folder: Path) -> Thresholds | None:
    """Build thresholds from the mappings in `options`; return None if no mapping is given.

    Raises:
        InvalidInputError: a mapping is invalid, or `criteria` or `checks` are given together with a file.
    """
    sections = options.thresholds
    own = {"criteria": options.criteria, "checks": options.checks}
    given = {name: dict(value) for name, value in own.items() if value is not None}
    if not given and (sections is None or not isinstance(sections, Mapping)):
        return None
    if sections is not None and not isinstance(sections, Mapping):
        name = next(iter(given))
        raise InvalidInputError(
            f"`{name}` and a thresholds file are given: write the {name} into the file, or pass its other "
            "sections as a mapping"
        )
    value = {**(sections or {}), **given}
    thresholds = parse_thresholds(value, folder, "thresholds" if sections else "")
    return replace(thresholds, folder=folder.absolute())
