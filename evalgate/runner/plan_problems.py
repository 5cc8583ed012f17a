"""Problems of a plan: errors that its parts share, notices and warnings about eval sets and thresholds."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.agents.factory import find_agent_problems
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import InvalidThresholdsError
from evalgate.config.schema.criteria import list_recordings
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.protocols import Lint, LintWarning, Metric
from evalgate.core.types import EvalSet, ToolRecording
from evalgate.llm.judge_resolver import JudgeResolver
from evalgate.runner.base_branch import RuleFiles
from evalgate.runner.metric_binding import describe_ignored_options, find_criterion_problems
from evalgate.runner.suites import Suite
from evalgate.system import git

if TYPE_CHECKING:
    from evalgate.config.schema.agent import SessionConfig
    from evalgate.runner.control.base_commit import ControlSource


LINTS: Mapping[str, str] = {
    "references": "evalgate.datasets.lints.cases:MissingReferencesLint",
    "repeats": "evalgate.datasets.lints.cases:DuplicateLint",
    "tools": "evalgate.datasets.lints.cases:UndeclaredToolsLint",
    "journeys": "evalgate.integrations.orchestrate.lint:JourneyLint",
    "rubrics": "evalgate.datasets.lints.cases:UnusedRubricsLint",
    "passed_over": "evalgate.datasets.lints.cases:IgnoredFeaturesLint",
}
"""Checks that `evalgate validate` makes on readable eval sets."""


def load_plan_thresholds(
    thresholds_file: str | None, rule_files: RuleFiles, overrides: Overrides
) -> Thresholds:
    """Read the thresholds file of a plan: the one that `RuleFiles.load_chosen_thresholds` chooses.

    Raises:
        InvalidInputError: the file cannot be read; or with every problem of its keys, agent and criteria.
    """
    try:
        return rule_files.load_chosen_thresholds(thresholds_file)
    except InvalidThresholdsError as error:
        raise _add_problems(error, error.rest, overrides) from None


@contextmanager
def add_agent_and_criteria_problems(thresholds: Thresholds, overrides: Overrides) -> Iterator[None]:
    """Add the problems of the file's agent and criteria to an InvalidInputError that the block raises.

    So users can fix all of them in one go. Otherwise the first error would end the check, because each
    section is checked by the code that uses the section.
    """
    try:
        yield
    except InvalidInputError as error:
        # An error in the thresholds file of a suite brings the valid rest of that file.
        wrong = error.rest if isinstance(error, InvalidThresholdsError) else thresholds
        raise _add_problems(error, wrong, overrides) from None


def _add_problems(
    error: InvalidInputError, thresholds: Thresholds | None, overrides: Overrides
) -> InvalidInputError:
    """Return the error with the problems of the file's agent and criteria added, if there are any."""
    if thresholds is None or not (thresholds.file or thresholds.criteria):
        return error
    agent = apply_overrides(thresholds.config, overrides).agent
    more = [
        *find_agent_problems(agent, overrides.agent_name, thresholds),
        *find_criterion_problems(thresholds),
    ]
    if not set(more) - set(error.problems):
        return error
    return InvalidInputError(sorted({*error.problems, *more}))


def resolve_control(
    config: Config,
    thresholds: Thresholds,
    overrides: Overrides,
    rule_files: RuleFiles,
    given_agent: object | None,
) -> "ControlSource | None":
    """Return the source of control runs, runs of the base commit's agent; None if `gate.control` is off.

    `given_agent`: the agent that a program gave as an object, or None.

    Raises:
        InvalidInputError: the settings contradict each other, or git does not know `--control`.
    """
    if config.gate.control.mode == "off":
        return None
    from evalgate.runner.control.base_commit import build_control_source

    folder, environ = rule_files.folder, rule_files.environ
    return build_control_source(
        config, thresholds, overrides, folder, environ, is_object=given_agent is not None
    )


def check_judges(judge_resolver: JudgeResolver, thresholds: Thresholds) -> None:
    """Raise InvalidInputError if a judge or simulated user has a model that cannot be called."""
    try:
        judge_resolver.models.check_reserved()
    except InvalidInputError as error:
        where = thresholds.find_position(("judge",)) if thresholds.config.judge else (0, 0)
        file = thresholds.file if thresholds.config.judge else ""
        raise InvalidInputError(Problem(file, *where, found.message) for found in error.problems) from None


def distrust_committed_caches(judge_resolver: JudgeResolver, rule_files: RuleFiles) -> Iterator[str]:
    """Let judges ask again what a cache answers that the change brings; yield a notice about each cache.

    The change may have written the answers itself. A cache that git does not track, as CI restores it, is
    used.
    """
    for cache in judge_resolver.models.reserved_caches if rule_files.applies_base_rules else ():
        for path in dict.fromkeys((cache.path, cache.path.resolve())):  # a link, and where it leads
            # SQLite reads all three files.
            names = [f":(literal){path}{ending}" for ending in ("", "-journal", "-wal")]
            if rule_files.base_commit:
                edited = rule_files.list_changed_files(*names)
            else:
                edited = git.run_git(rule_files.folder, "ls-files", "--", *names).splitlines()
            if edited:
                cache.distrust_stored_answers()
                yield (
                    f"The change brings its own {edited[0]}, so no answer in it was used: the judge is asked "
                    "again. Remove it from git; CI can keep it between runs."
                )


def iter_notices(suites: Sequence[Suite], session: "SessionConfig | None") -> Iterator[str]:
    """Yield the notices about the thresholds files and eval sets of all suites.

    The notices tell about ignored contents, metrics without expectations, and old formats. `session` is the
    section of this name.
    """
    from evalgate.datasets.lints.thresholds import find_empty_trajectories

    for thresholds in {id(suite.thresholds): suite.thresholds for suite in suites}.values():
        yield from thresholds.notices
        yield from describe_ignored_options(thresholds)
    for suite in suites:
        yield from suite.eval_set.notices
        yield from find_empty_trajectories(suite.eval_set, _index_metrics(suite))
    yield from _describe_old_files([suite.eval_set for suite in suites], session)


def _describe_old_files(eval_sets: Sequence[EvalSet], session: "SessionConfig | None") -> Iterator[str]:
    """Yield one notice if files have a format that Google ADK read before eval sets."""
    old = [each for each in eval_sets if each.format_name == "adk-legacy" and each.path]
    if not old:
        return
    from evalgate.integrations.adk.legacy_evalset import is_turn_list

    path = old[0].path
    stem = path.removesuffix(".json").removesuffix(".test").removesuffix(".evalset")
    file = session.file if session is not None and is_turn_list(old[0]) else None
    option = [] if file is None else ["--initial-session", file]
    names = shlex.join([path, "--to", "adk", "--out", f"{stem}.evalset.json", *option])
    force = " --force" if path == f"{stem}.evalset.json" else ""
    others = f" and {pluralize(len(old) - 1, 'other file')}" if old[1:] else ""
    yield (
        f"{path}{others}: a list as Google ADK read them before eval sets, and will stop reading. "
        f"`evalgate convert {names}{force}` writes an eval set."
    )


def _index_metrics(suite: Suite) -> dict[str, Metric]:
    return {bound.name: bound.metric for bound in suite.metrics}


def iter_plan_notices(
    config: Config, suites: Sequence[Suite], judge_resolver: JudgeResolver
) -> Iterator[str]:
    """Yield the notices of a run: about criteria, judges, eval sets, recorded tools and `track_files`."""
    yield from filter(None, [*map(describe_default_criteria, suites), judge_resolver.models.default_notice])
    yield from iter_notices(suites, config.session)
    yield from _describe_recordings(config, suites)
    if config.agent is not None and config.agent.track_files:
        is_here = config.executor.kind == "local"
        if not is_here or config.agent.kind not in {"python", "adk"}:
            where = f"agents of the kind `{config.agent.kind}`" if is_here else "workers of a Ray cluster"
            yield f"`agent.track_files` has no effect: the files of {where} are not seen."


def _describe_recordings(config: Config, suites: Sequence[Suite]) -> tuple[str, ...]:
    """Return a notice for each tool recording, a file with results that replace the tool calls of a case."""
    found: dict[str, ToolRecording] = {}
    for suite in suites if list_recordings(config.tool_mocks) else ():
        for case in suite.eval_set.cases:
            if case.tool_recording is not None:
                found.setdefault(case.tool_recording.source, case.tool_recording)
    return tuple(
        f"The calls of tools were answered from {each.source} (recording {each.digest})"
        + (f", except those of {', '.join(f'`{name}`' for name in each.live)}" if each.live else "")
        + ". Durations are without the time of tools, and cases are compared only with runs of the same "
        "recorded calls."
        for each in found.values()
    )


def iter_warnings(suites: Sequence[Suite], thresholds: Thresholds, folder: Path) -> Iterator[str]:
    """Yield the notices, and the warnings of every lint, with the line in the file.

    `thresholds` is the thresholds file of the run, which has the checks; `folder` is the working folder.
    """
    from evalgate.datasets.lints.thresholds import lint_extra_calls, lint_thresholds

    yield from iter_notices(suites, thresholds.config.session)
    for suite in {id(suite.thresholds): suite for suite in suites}.values():
        yield from lint_thresholds(suite.thresholds)
        yield from lint_extra_calls(suite.thresholds, _index_metrics(suite))
    for suite in suites:
        for each in suite.note_thresholds:
            yield from lint_thresholds(each)
    yield from _lint_checks(suites, thresholds)
    if thresholds.config.suites:
        from evalgate.runner.affected import find_unmatched_globs

        yield from find_unmatched_globs(thresholds, folder)
    for suite in suites:
        for found in _find_lint_warnings(suite.eval_set, _index_metrics(suite)):
            yield f"{suite.eval_set.path}:{found.line}: {found.eval_id}: {found.message}"


def _find_lint_warnings(eval_set: EvalSet, metrics: Mapping[str, Metric]) -> list[LintWarning]:
    """Return the warnings of every lint about an eval set, in the order of the file."""
    lints: Iterator[Lint] = (plugin_registry.load_object(path)() for path in LINTS.values())
    looks = [lint.build_checker(eval_set, metrics) for lint in lints]
    found = [
        LintWarning(case.line, case.eval_id, sentence)
        for case in eval_set.cases
        for look in looks
        for sentence in look(case)
    ]
    return sorted(found, key=lambda each: each.line)


def _lint_checks(suites: Sequence[Suite], thresholds: Thresholds) -> Iterator[str]:
    files = [thresholds, *(each for suite in suites for each in suite.note_thresholds)]
    if any(each.checks for each in files):
        from evalgate.metrics.checks.lint import lint_checks

        names = {bound.name for suite in suites for bound in suite.metrics}
        yield from lint_checks(files, names, [suite.eval_set for suite in suites])


def describe_default_criteria(suite: Suite) -> str:
    """Return a notice if the eval set uses the default criteria of its format; "" otherwise."""
    if suite.thresholds.file:
        return ""
    from evalgate.runner.default_criteria import DEFAULT_THRESHOLDS

    owner, thresholds = DEFAULT_THRESHOLDS.get(suite.eval_set.format_name, ("", None))
    if thresholds is None or suite.thresholds is not thresholds:
        return ""
    defaults = " and ".join(f"`{each.metric}` {each.threshold:g}" for each in thresholds.criteria)
    return (
        f"{suite.eval_set.display_name} has no criteria, so {owner}'s defaults apply: {defaults}. "
        "Write `criteria` into a thresholds file to choose others."
    )
