"""The steps of an evaluation as separate functions: load, run, score, compare, decide, render.

The functions after `run` take the `Record` of an earlier step. `Record.write` and `Record.read` store a
record between the steps and pass it to another machine.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.agents.factory import AgentSpec
from evalgate.agents.replay import ReplayAgentOptions
from evalgate.api.arguments import check_arguments
from evalgate.api.evaluation import evaluate_plan, run_blocking
from evalgate.api.evaluation_plan import (
    EvaluationOptions,
    build_agent_config,
    build_evaluation_plan,
    load_sources,
)
from evalgate.api.record import Record
from evalgate.baselines.history import build_baseline
from evalgate.config.loader import load_thresholds_or_default, parse_thresholds
from evalgate.core import plugin_registry, types
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import join_quoted
from evalgate.core.protocols import FolderReporter
from evalgate.core.types import Baseline, EvalSet, GateInput, Verdict
from evalgate.gating.verdict import decide_verdict
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.regating import (
    GateRules,
    count_unselected,
    find_stored_doubts,
    infer_runs_setting,
    limit_min_cases,
    regate_record,
)
from evalgate.runner.rescoring import score_record
from evalgate.runner.result_loading import load_stored_baseline
from evalgate.system.workspace import resolve_workspace


def load(
    sources: object,
    *,
    format: str | None = None,  # noqa: A002  the name of the option everywhere else
    folder: str | Path = ".",
) -> tuple[EvalSet, ...]:
    """Load eval sets of any format. The eval sets of files come before those of objects.

    All `EvalCase` objects are put into one eval set with the id `cases`.

    Args:
        sources: Files, folders or globs, eval sets, cases, decoded JSON, or Google ADK's own `EvalSet`; one
            or a list.
        format: Format of all sources; detected from the content if absent.
        folder: Folder that paths are relative to.

    Raises:
        InvalidInputError: an object or a file is invalid. The error lists the problems of the first invalid
            object. If all objects are valid, it lists the problems of all files.

    >>> [eval_set] = load({"eval_set_id": "greetings", "eval_cases": []})
    >>> eval_set.eval_set_id
    'greetings'
    """
    return load_sources(sources, format, Path(folder))


def run(
    eval_sets: object = (),
    agent: object = None,
    *,
    thresholds: str | Path | Mapping[str, object] | None = None,
    runs: int = 1,
    concurrency: int | None = None,
    timeout: float | None = None,
    env: Sequence[str] = (),
    format: str | None = None,  # noqa: A002
    folder: str | Path = ".",
) -> Record:
    """Run the cases and return a record of the conversations. Nothing is scored, so the gate is closed.

    Criteria in a thresholds file are ignored.

    Args:
        eval_sets: Files, folders or globs, eval sets, cases, decoded JSON, or Google ADK's own `EvalSet`; one
            or a list. Empty: the eval sets that the thresholds file lists.
        agent: A function, an object or a framework's agent, which runs in this process. Or a text such as
            `python:agent.py:answer`, as for `--agent` of the command line: this agent runs in its own
            process. None: the thresholds file's agent.
        thresholds: A thresholds file, or its sections as a mapping. None: the file in `folder` that the
            command line would use.
        runs: Runs of each case.
        concurrency: Greatest number of conversations at once.
        timeout: Seconds that one turn may take.
        env: Names of environment variables that an agent in its own process may read.
        format: Format of all eval sets; detected from the content if absent.
        folder: Folder that paths are relative to, and that the agent works in.

    Raises:
        InvalidInputError: the input is invalid; the error lists every problem found.
        EvalgateError: the run is not possible for another reason.

    >>> made = run([{"query": "Hi", "reference": "Hello"}], lambda text: "Hello")
    >>> made.cases[0].runs[0].turns[0].actual.response
    'Hello'
    """
    given = EvaluationOptions(
        thresholds=thresholds,
        runs=runs,
        concurrency=concurrency,
        timeout=timeout,
        env=env,
        format=format,
        folder=folder,
        scores=False,
    )
    plan = build_evaluation_plan(eval_sets, agent, given)
    return run_blocking(lambda: evaluate_plan(plan.drop_baseline()))


def score(
    record: types.Record,
    eval_sets: object = (),
    *,
    criteria: Mapping[str, object] | None = None,
    checks: Mapping[str, object] | None = None,
    thresholds: str | Path | Mapping[str, object] | None = None,
    concurrency: int | None = None,
    judge: str | None = None,
    format: str | None = None,  # noqa: A002
    folder: str | Path = ".",
) -> Record:
    """Score the conversations of a record. The agent is not run, and nothing is compared with a baseline.

    Follow-up runs, which `runs: auto` makes only of suspicious cases, are left out, because they would bias
    the scores.

    Args:
        record: A record that `run`, `evaluate` or `Record.read` returned.
        eval_sets: The cases with their expectations: files, folders or globs, eval sets, cases or decoded
            JSON; one or a list. Empty: the eval sets that the thresholds file lists.
        criteria: For each metric name, a threshold or a mapping with options.
        checks: For each name of a check, its conditions, as in the section `checks` of a thresholds file.
        thresholds: A thresholds file, or its sections as a mapping. A file cannot be combined with `criteria`
            or `checks`. If all three are None: the file in `folder` that the command line would use.
        concurrency: Greatest number of runs that are scored at once. It limits the simultaneous requests to a
            judge.
        judge: The judge model, as `PROVIDER/MODEL`.
        format: Format of all eval sets.
        folder: Folder that paths are relative to.

    Raises:
        InvalidInputError: the input is invalid; the error lists every problem found.

    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> made = run([case], lambda text: "Hello")
    >>> score(made, [case], criteria={"response_match_score": 1.0}).passed
    True
    """
    check_arguments({"record": record}, required=frozenset({"record"}))
    options = EvaluationOptions(
        criteria,
        thresholds,
        checks=checks,
        concurrency=concurrency,
        judge=judge,
        format=format,
        folder=folder,
    )
    settings = build_agent_config("replay", options)
    agent = AgentSpec(settings, ReplayAgentOptions(path="record"), record.agent.what)
    counted = [sum(not each.confirms for each in case.runs) for case in record.cases]
    plan = build_evaluation_plan(eval_sets, agent, replace(options, runs=max(counted, default=1) or 1))
    redactor = LiveRedactor.from_environment(os.environ)
    scored = run_blocking(lambda: score_record(record, plan, redactor.redact_tree))
    return Record.from_core(redactor.redact_tree(scored))


def compare(
    record: types.Record,
    baseline: str | Path | types.Record | Baseline,
    *,
    thresholds: str | Path | Mapping[str, object] | None = None,
    folder: str | Path = ".",
) -> Record:
    """Compare a record with a baseline. Return the record with the changes and a new verdict.

    Nothing is run.

    Args:
        record: A record with scores.
        baseline: Another record, a `results.json`, or a stored baseline by its path or address.
        thresholds: A thresholds file, or its sections as a mapping; None: the file in `folder`. The section
            `gate` applies. Each metric keeps the threshold that the record was scored with.
        folder: Folder that paths are relative to.

    Raises:
        InvalidInputError: the baseline does not exist or cannot be read, or the thresholds are invalid.
        NoVerdictError: the service that stores the baseline does not answer.

    >>> from evalgate import evaluate
    >>> case, criteria = {"query": "Hi", "reference": "Hello"}, {"response_match_score": 0.5}
    >>> before = evaluate([case], lambda text: "Hello", criteria=criteria)
    >>> after = evaluate([case], lambda text: "Hello there", criteria=criteria)
    >>> round(compare(after, before).metrics[0].delta, 2)
    -0.33
    """
    given = {"record": record, "thresholds": thresholds, "folder": folder}
    if not isinstance(baseline, types.Record | Baseline):
        given["baseline"] = baseline
    check_arguments(given, required=frozenset({"record", "folder", "baseline"}))
    workspace = resolve_workspace(Path(folder))
    if isinstance(thresholds, Mapping):
        parsed = parse_thresholds(thresholds, workspace.folder, "thresholds")
    else:
        path = None if thresholds is None else str(thresholds)
        parsed = load_thresholds_or_default(workspace.folder, path)
    if isinstance(baseline, types.Record):
        baseline = build_baseline(baseline, path="the other record")
    elif not isinstance(baseline, Baseline):
        baseline = load_stored_baseline(workspace, str(baseline))
    criteria = {criterion.metric: criterion for criterion in parsed.effective_criteria}
    gate_rules = GateRules(parsed.config.gate, infer_runs_setting(record), criteria)
    return Record.from_core(regate_record(record, gate_rules, baseline))


def decide(record: types.Record, gate: Mapping[str, object] | None = None) -> Verdict:
    """Decide a record again with other settings of the gate, and return the new verdict.

    Nothing is compared again. The record's comparisons with the baseline, with the older baseline
    `gate.anchor` and with control runs (runs of the base commit's agent) are used as they are.

    Args:
        record: A record with scores.
        gate: The settings, as in the section `gate` of a thresholds file; None: the defaults. Settings of the
            comparison, such as `max_regression` and `statistics`, have no effect here: give them to
            `compare`.

    Raises:
        InvalidInputError: the settings are invalid; the error lists every problem.

    >>> from evalgate import evaluate
    >>> case, criteria = {"query": "Hi", "reference": "Hello"}, {"response_match_score": 0.5}
    >>> record = evaluate([case], lambda text: "Bye", criteria=criteria)
    >>> decide(record, {"max_failed_cases": 1}).reasons  # the case may fail, but not the mean
    ('response_match_score is 0.00, below its threshold 0.50.',)
    """
    check_arguments({"record": record, "gate": gate}, required=frozenset({"record"}))
    section = parse_thresholds({"gate": dict(gate or {})}, Path(), "").config.gate
    interrupted = record.verdict.exit_code == ExitCode.INTERRUPTED
    evidence = GateInput(
        record.metrics,
        record.cases,
        record.totals,
        record.comparison,
        interrupted,
        doubts=find_stored_doubts(record),
        not_selected=count_unselected(record),
        anchor=record.anchor,
        control=record.control,
    )
    return decide_verdict(evidence, limit_min_cases(section, record))


def render(record: types.Record, report: str = "comment") -> str:
    """Return a report of a record as text.

    Args:
        record: Any record.
        report: `comment` (Markdown), `junit`, `json`, `html`, `codequality`, or the name of a plugin.

    Raises:
        InvalidInputError: the report is unknown or has several files, or the plugin of the report raised an
            exception.

    >>> from evalgate import evaluate
    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> record = evaluate([case], lambda text: "Bye", criteria={"response_match_score": 1.0})
    >>> render(record, "junit").startswith("<?xml")
    True
    """
    check_arguments({"record": record}, required=frozenset({"record"}))
    reporter = plugin_registry.find_reporter(report)
    if reporter is None:
        known = sorted(
            {
                *plugin_registry.REPORTERS,
                *plugin_registry.find_third_party_plugins("reporters", plugin_registry.REPORTERS),
            }
        )
        hint = did_you_mean(report, known) or f" Known reports: {join_quoted(known)}."
        raise InvalidInputError(f"`{report}` is not a report.{hint}")
    if isinstance(reporter, FolderReporter):
        raise InvalidInputError(f"`{report}` is a report of several files: write it with `Record.write`.")
    try:
        return reporter.render(record)
    except Exception as error:
        from evalgate.core.foreign_plugins import describe_error
        from evalgate.reporting.report_files import is_foreign

        if not is_foreign(reporter):
            raise
        raise InvalidInputError(f"the plugin `{report}` cannot be used: {describe_error(error)}") from error
