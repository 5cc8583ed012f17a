"""Variants of an agent: the settings that `--vary` changes, and the plan of each variant."""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from pydantic import ValidationError

from evalgate.agents.factory import AgentSpec, list_agent_keys, resolve_agent
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core import plugin_registry
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import EvalgateError, InvalidInputError, Problem
from evalgate.core.formatting import join_quoted, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_file_name
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.validation_errors import describe_error_details
from evalgate.redaction.environment import is_secret_name
from evalgate.runner.cost_estimate import describe_estimate, estimate_cost
from evalgate.runner.plan import Plan
from evalgate.system.agent_environment import build_agent_environment

MOST_VARIANTS = 64

_NO_LIST = "must be UTF-8 text on one line, each value with both of its quotes or none"

_SHARED_SETTINGS = (
    "concurrency",
    "env",
    "env_file",
    "kind",
    "ramp_up",
    "requests_per_minute",
    "retries",
    "trace",
)
"""Settings of an agent that all variants share, because one throttle and one schedule serve them all."""


@frozen
class Variation:
    """Environment variable or setting of the agent that differs between variants, with its values."""

    name: str
    """`env.NAME` for an environment variable, or `agent.KEY` for a key in the `agent` section."""
    values: tuple[str, ...]
    """Values to compare: at least one, without repetitions."""


@frozen
class Variant:
    """Agent with one value for each variation, and the plan of its runs."""

    name: str
    """Values joined by `/`. If two variants would have the same name, all values are in double quotes."""
    values: Mapping[str, str]
    plan: Plan
    folder: str
    """Folder of the variant's results, relative to the folder of the reports."""


def parse_variations(texts: Iterable[str]) -> tuple[Variation, ...]:
    """Parse the texts of `--vary`, which have the form `NAME=VALUE,VALUE`.

    A value with a comma must be in double quotes. If several texts have the same name, their values form one
    variation.

    Raises:
        InvalidInputError: a text is wrong, or a value is given twice; the error lists every problem.
    """
    found: dict[str, list[str]] = {}
    problems = []
    for text in texts:
        name, sign, values = text.partition("=")
        shown = name if _is_secret(name) else text
        if problem := _find_problem(name.strip(), sign):
            problems.append(Problem("", 0, 0, f"--vary {shown}: {problem}"))
            continue
        try:
            values.encode("utf-8")
            row = next(csv.reader([values], skipinitialspace=True, strict=True)) or [""]
        except (csv.Error, UnicodeEncodeError):
            problems.append(Problem("", 0, 0, f"--vary {shown!a}: {_NO_LIST}"))
            continue
        found.setdefault(name.strip(), []).extend(value.strip() for value in row)
    for name, taken in found.items():
        if twice := sorted({value for value in taken if taken.count(value) > 1}):
            which = "a value" if _is_secret(name) else join_quoted(twice)
            problems.append(Problem("", 0, 0, f"--vary {name}: {which} is given twice; see `evalgate aa`"))
    if problems:
        raise InvalidInputError(problems)
    return tuple(Variation(name, tuple(values)) for name, values in found.items())


def _is_secret(name: str) -> bool:
    """Return True if the name of the variable, with or without `env.`, looks like that of a secret."""
    return is_secret_name(name.strip().rpartition(".")[2])


def _find_problem(name: str, sign: str) -> str:
    """Return the reason why `name` cannot be varied; "" if it can be varied.

    `sign` is the `=` after the name, or "" if the text has no `=`.
    """
    place, _, key = name.partition(".")
    if not sign or not key or place not in {"env", "agent"}:
        return "must be env.NAME=VALUE,VALUE or agent.KEY=VALUE,VALUE"
    if place == "agent":
        return f"all variants share `agent.{key}`" if key in _SHARED_SETTINGS else ""
    if not key.isidentifier():
        return f"`{key}` is no name of a variable"
    if not build_agent_environment({key: ""}, [key]):
        return f"the environment variable {key} is never given to the agent"
    if is_secret_name(key):
        return (
            f"the values are shown in reports, and {key} looks like a secret: vary a name by which the agent "
            "chooses the secret"
        )
    return ""


def build_variants(plan: Plan, agent_name: str, variations: Sequence[Variation]) -> tuple[Variant, ...]:
    """Build a variant for every combination of values; the first has the first value of each variation.

    All variants share the eval sets, metrics, judges and budget of `plan`. `agent_name` is the WHAT of
    `--agent KIND:WHAT`; "" without this option.

    Raises:
        InvalidInputError: there is no case to compare, the agent is a recording, or the agent refuses a key
            or value. Or the number of combinations is below 2 or above `MOST_VARIANTS`.
    """
    _check_cases(plan)
    if plan.agent.settings.kind == "replay":
        raise InvalidInputError("a recording answers the same in every variant: give an agent that runs")
    number = math.prod(len(each.values) for each in variations)
    if number < 2:
        raise InvalidInputError("--vary: one variant has nothing to be compared with; give a second value")
    if number > MOST_VARIANTS:
        raise InvalidInputError(f"--vary: {number:,} variants, and {MOST_VARIANTS} is the most")
    found = []
    combinations = list(product(*(each.values for each in variations)))
    for at, (name, values) in enumerate(zip(_name_combinations(combinations), combinations, strict=True), 1):
        named = dict(zip([each.name for each in variations], values, strict=True))
        own = _vary_plan(plan, agent_name, named)
        found.append(Variant(name, named, own, f"variants/{at}-{to_file_name(name, 60)}"))
    return tuple(found)


def _check_cases(plan: Plan) -> None:
    """Check that the plan has a case on which variants can be compared.

    Raises:
        InvalidInputError: the plan has no cases, or each case is quarantined or was only observed, that is,
            not reviewed yet.
    """
    cases = [(case, suite.get_case_policy(case)) for suite in plan.suites for case in suite.eval_set.cases]
    if not any(case.status == "expected" and case_policy.quarantine is None for case, case_policy in cases):
        why = "all are quarantined, or observed and not reviewed yet" if cases else "the eval sets are empty"
        raise InvalidInputError(f"no case to compare variants on: {why}")


def _name_combinations(combinations: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the name of each combination: its values, joined by `/`.

    If two names would be equal, all values are written in double quotes as in JSON.
    """
    names = ["/".join(value or '""' for value in values) for values in combinations]
    if len(set(names)) < len(names):
        names = ["/".join(map(json.dumps, values)) for values in combinations]
    return names


def _vary_plan(plan: Plan, agent_name: str, values: Mapping[str, str]) -> Plan:
    environ = {name.partition(".")[2]: value for name, value in values.items() if name.startswith("env.")}
    agent = plan.agent
    for name, value in values.items():
        if name.startswith("agent."):
            agent = _vary_agent(agent, agent_name, name.partition(".")[2], value, plan)
            agent_name = ""  # the settings name the agent now, perhaps another one than the command line
    env = tuple(dict.fromkeys((*agent.settings.env, *environ)))
    settings = agent.settings.model_copy(update={"env": env})
    agent, environ = replace(agent, settings=settings), {**plan.agent_environ, **environ}
    return replace(plan, agent=agent, agent_environ=environ, varied=values)


def _vary_agent(agent: AgentSpec, agent_name: str, key: str, value: str, plan: Plan) -> AgentSpec:
    """Return the agent with the setting `key` changed to `value`, which is read as YAML.

    `agent_name` is the WHAT of `--agent KIND:WHAT`; "" if it is not given. It replaces the agent's name in
    the settings, such as `entry`. But if `key` is this setting, `value` applies.

    Raises:
        InvalidInputError: agents of this kind have no such key, or the value is invalid.
    """
    own, settings = f"--vary agent.{key}={value}", agent.settings
    type_ = plugin_registry.get_agent_type(settings.kind)
    known = list_agent_keys(type_)
    if key not in known:
        hint = did_you_mean(key, known)
        raise InvalidInputError(f"{own}: an agent of kind `{settings.kind}` has no `{key}`.{hint}")
    given = {name: each for name, each in settings if name in settings.model_fields_set}
    if agent_name:
        given[type_.named_by] = agent_name
    try:
        changed = AgentConfig.model_validate({**given, key: compose_yaml(value, "")[1] if value else ""})
        return resolve_agent(changed, "", Thresholds(DEFAULT_CONFIG, plan.workspace.folder))
    except ValidationError as error:
        raise InvalidInputError(
            Problem("", 0, 0, f"{own}: {describe_error_details(each)}") for each in error.errors()
        ) from None
    except InvalidInputError as error:
        raise InvalidInputError(
            Problem("", 0, 0, f"{own}: {problem.message}") for problem in error.problems
        ) from None


def describe_expected_cost(plan: Plan, variants: int) -> Iterator[str]:
    """Yield a sentence with the number of runs, then an estimate of their cost or why there is no estimate.

    The cost of a variant is not known yet. So the estimate uses the stored cost of the baseline's agent.
    """
    cases = {
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.cases
    }
    number = plan.first_runs * variants
    yield (
        f"{pluralize(len(cases) * number, 'run')}: {pluralize(variants, 'variant')}, "
        f"{pluralize(len(cases), 'case')}, {pluralize(plan.first_runs, 'run')} each."
    )
    try:
        baseline = plan.baseline_store.read() if plan.baseline_store is not None else None
    except EvalgateError as error:
        yield f"No estimate of the cost: {error}"
        return
    wanted = dict.fromkeys(cases, number)
    found = estimate_cost(wanted, baseline, plan.agent.settings.concurrency) if baseline is not None else None
    if found is None:
        yield "No estimate of the cost: there is no baseline with these cases."
        return
    estimate = tuple(describe_estimate(found, plan.judge_resolver.models.meter.budget))
    if estimate:
        yield from estimate
        yield "The estimate is for the agent of the baseline; variants may cost more or less."
    elif found.agent_is_silent:
        yield "No estimate of the cost: the runs of the baseline do not report what the agent used."
    else:
        yield "No estimate of the cost: the runs of the baseline used no tokens."
