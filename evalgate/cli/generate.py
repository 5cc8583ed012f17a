"""`evalgate generate`: make cases from recordings, or from stories that a model plays with the agent.

The agent's behaviour becomes the expected behaviour. So a person must check every case before it gates.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.agents.factory import AgentSpec, build_agent, resolve_agent
from evalgate.cli.storable_cases import make_storable
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.judge import UserConfig
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import CreateUser
from evalgate.core.types import CaseRun, CaseTurn, EvalCase, EvalSet, Record, UserMessage
from evalgate.datasets.eval_set_paths import build_eval_set_id
from evalgate.datasets.foreign_datasets import Dataset, convert_dataset, detect_dataset
from evalgate.datasets.foreign_rows import QUESTIONS
from evalgate.datasets.results_io import NoRecordError
from evalgate.datasets.stories import read_stories
from evalgate.integrations.recordings import may_become_eval_set, read_recording
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.judge_resolver import JudgeResolver, LlmContext, ModelPool
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.runner.user_factory import build_user_factory
from evalgate.system.files import write_atomically
from evalgate.system.workspace import Workspace, resolve_workspace

REVIEW_RECORDED = (
    "These cases are not reviewed yet: the agent's behaviour became the expected behaviour. Read each "
    "before it gates anything: are the calls, their arguments and the responses right?"
)
REVIEW_CONVERTED = (
    "These cases are not reviewed yet. Read each before it gates anything: is the expected response right, "
    "and which tool calls belong to it?"
)


@frozen
class GenerateOptions:
    """Options of the command `evalgate generate`."""

    to: str
    """Name of the format to write."""
    out: str
    """File to write; it must not exist."""
    stories: str | None = None
    recorded: str | None = None
    """File to make cases from: a record, traces, conversations, an eval set or another tool's dataset. None
    if a model plays `stories` instead."""
    thresholds: str | None = None


@frozen
class GenerateResult:
    """Result of `evalgate generate`: sentences about the cases, and the points to review."""

    cases: tuple[str, ...]
    """One sentence for each case, with what a person must check."""
    missing: tuple[str, ...]
    """One sentence for each story or recording without a case, and for data that the format cannot hold."""
    is_whole: bool
    """True if every story, recording or item of a dataset produced a case."""
    review: str
    """Points that a person must check before the cases gate anything."""


def choose_out_path(source: str | None) -> str:
    """Return the default path of the generated file.

    For the input `logs/chats.csv`, this is `evals/chats.evalset.json`. Dots at the start of the name are left
    out. If there is no input file (`source` is None), the name is `cases`. The folder is `evals`, as in the
    thresholds file that `evalgate init` writes.
    """
    stem = Path(source or "").name.lstrip(".").partition(".")[0] or "cases"
    return f"evals/{stem}.evalset.json"


def generate_cases(
    options: GenerateOptions,
    overrides: Overrides,
    folder: Path,
    environ: Mapping[str, str],
    redactor: LiveRedactor,
) -> GenerateResult:
    """Generate cases from stories or recordings, and write them to a new file.

    Raises:
        InvalidInputError: the input is invalid, or the file exists.
        NoVerdictError: no case could be generated.
    """
    workspace, writer = resolve_workspace(folder), plugin_registry.get_writer(options.to)
    if (options.stories is None) == (options.recorded is None):
        raise InvalidInputError("name either a file of stories, or a recording with --from FILE")
    if (workspace.folder / options.out).exists():
        raise InvalidInputError(f"{options.out}: exists already, and is never overwritten: name another file")
    dataset = _find_dataset(options, workspace)
    unconverted: tuple[str, ...] = ()
    if dataset is not None:
        converted = convert_dataset(dataset, options.recorded or "")
        found, missing, unconverted = converted.eval_set, list(converted.missing), converted.lost
    elif options.recorded is not None:
        found, missing = _read_recorded(workspace.folder / options.recorded, options.recorded)
    else:
        found, missing = _play_stories(options, overrides, workspace, environ)
    if not found.cases:
        raise NoVerdictError("; ".join(missing) or "nothing was recorded that a case could be made from")
    found = redactor.redact_tree(
        replace(found, eval_set_id=build_eval_set_id(Path(options.out).name), path=options.out)
    )
    written = writer.write_eval_set(found)
    _write_file(written.text, options.out, workspace)
    lost = tuple(f"{options.out}: {sentence}" for sentence in written.lost)
    cases = tuple(map(_describe_review, found.cases))
    review = REVIEW_RECORDED if dataset is None else REVIEW_CONVERTED
    return GenerateResult(cases, (*missing, *unconverted, *lost), is_whole=not missing, review=review)


def _write_file(text: str, out: str, workspace: Workspace) -> None:
    try:
        (workspace.folder / out).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(workspace.folder / out, text, workspace.owner)
    except OSError as error:
        raise InvalidInputError(f"{out}: cannot be written: {error.strerror}") from None


def _describe_review(case: EvalCase) -> str:
    if case.scenario is not None:
        return f"{case.eval_id}: a scenario, which a simulated user plays"
    calls = sum(len(turn.expected.tool_calls) for turn in case.turns)
    what = f"{pluralize(len(case.turns), 'turn')}, {pluralize(calls, 'tool call')}"
    without_response = [
        str(number) for number, turn in enumerate(case.turns, 1) if turn.expected.response is None
    ]
    more = f"; no response in turn {', '.join(without_response)}" if without_response else ""
    return f"{case.eval_id}: {what}{more}"


# --- datasets of other tools --------------------------------------------------------------------------------


def _find_dataset(options: GenerateOptions, workspace: Workspace) -> Dataset | None:
    """Return the dataset of another tool that `--from` names; None for a recording, or without `--from`.

    Raises:
        InvalidInputError: `--from` names a file of stories, or a YAML file of no known tool.
    """
    if options.recorded is None:
        return None
    path, shown_as = workspace.folder / options.recorded, options.recorded
    if may_become_eval_set(path, shown_as):
        return None
    found, suffix = detect_dataset(path, shown_as), path.suffix.lower()
    if found is None and path.is_file():
        if suffix in {".csv", ".tsv"}:
            message = "the column `story` holds stories, which are played: name the file without --from"
            raise InvalidInputError([Problem(shown_as, 1, 1, message)])
        if suffix in {".yaml", ".yml"}:
            message = (
                "is no configuration of promptfoo, which has `prompts` and `providers`; stories, which are "
                "played, are named without --from"
            )
            raise InvalidInputError([Problem(shown_as, 1, 1, message)])
    return found


# --- recordings ---------------------------------------------------------------------------------------------


def _read_recorded(path: Path, shown_as: str) -> tuple[EvalSet, list[str]]:
    try:
        recording = read_recording(path, shown_as)
    except NoRecordError:
        known = ", ".join(QUESTIONS)
        message = f"no case can be made of this: it is no recording, has no `messages` and none of {known}"
        raise InvalidInputError([Problem(shown_as, 1, 1, message)]) from None
    if isinstance(recording, Record):
        return _convert_record(recording)
    cases = [make_storable(_as_expected(case)) for case in recording.cases]
    missing = [f"{case.eval_id}: no conversation is recorded" for case in cases if not case.turns]
    unique = {case.eval_id: case for case in reversed(cases) if case.turns}
    kept = tuple(case for case in cases if unique.get(case.eval_id) is case)
    return replace(recording, cases=kept), missing


def _as_expected(case: EvalCase) -> EvalCase:
    if case.recorded is None:
        return case
    turns = [replace(turn, expected=reply) for turn, reply in zip(case.turns, case.recorded, strict=False)]
    return replace(case, turns=tuple(turns), recorded=None)


def _convert_record(record: Record) -> tuple[EvalSet, list[str]]:
    cases, missing = [], []
    several = len({case.eval_set_id for case in record.cases}) > 1
    for case in record.cases:
        name = f"{case.eval_set_id}-{case.eval_id}" if several else case.eval_id
        run = next((run for run in case.runs if run.outcome == "answered"), None)
        turns = tuple(
            CaseTurn(UserMessage(turn.user), turn.actual)
            for turn in (run.turns if run else ())
            if turn.actual is not None
        )
        if turns:
            cases.append(EvalCase(name, turns, tags=case.tags))
        else:
            missing.append(f"{name}: no run was answered, so there is no case")
    return EvalSet("recorded", tuple(cases)), missing


# --- stories ------------------------------------------------------------------------------------------------


@frozen
class _GenerationSetup:
    chosen: AgentSpec
    create_user: CreateUser
    models: ModelPool


def _play_stories(
    options: GenerateOptions, overrides: Overrides, workspace: Workspace, environ: Mapping[str, str]
) -> tuple[EvalSet, list[str]]:
    stories = options.stories or ""
    story_set = read_stories(workspace.folder / stories, stories)
    setup = _build_setup(_load_thresholds(options.thresholds, workspace), overrides, story_set, environ)
    runs = asyncio.run(_run_stories(setup, story_set.cases, workspace, environ))
    cases, missing = [], []
    for case, run in zip(story_set.cases, runs, strict=True):
        pairs = zip(run.said, run.replies, strict=False)
        turns = tuple(CaseTurn(message, reply) for message, reply in pairs if reply is not None)
        if run.outcome == "answered" and turns:
            # Only Orchestrate's format can hold stories. Writers of other formats would report them as lost.
            journey = case.journey if options.to == "orchestrate" else None
            cases.append(replace(case, turns=turns, scenario=None, journey=journey))
        else:
            why = (
                f"{run.outcome}: {run.failure.message}" if run.failure else "the simulated user said nothing"
            )
            missing.append(f"{stories}:{case.line}: {case.eval_id}: {why}")
    return replace(story_set, cases=tuple(cases)), missing


def _load_thresholds(thresholds_file: str | None, workspace: Workspace) -> Thresholds:
    if thresholds_file is not None:
        return load_thresholds(workspace.folder / thresholds_file, thresholds_file)
    found = find_thresholds_file(workspace.folder)
    if found is None:
        return Thresholds(DEFAULT_CONFIG, workspace.folder)
    return load_thresholds(found, workspace.format_path(found))


def _build_setup(
    thresholds: Thresholds, overrides: Overrides, story_set: EvalSet, environ: Mapping[str, str]
) -> _GenerationSetup:
    config = apply_overrides(thresholds.config, overrides)
    if config.agent is None:
        raise InvalidInputError(
            "no agent: name one with --agent KIND:WHAT, or in the `agent` section of the thresholds file"
        )
    settings, config = config.agent, config.model_copy(update={"user": config.user or UserConfig()})
    redactor = LiveRedactor.from_environment(environ)
    context = LlmContext(
        thresholds.folder, environ, UsageMeter(config.budget), config.prices, redactor=redactor
    )
    resolver = JudgeResolver(ModelPool(context), config.judge, forced_by_cli=overrides.judge is not None)
    create_user = build_user_factory(thresholds, config, {}, resolver, [story_set])
    resolver.models.check_reserved()
    return _GenerationSetup(
        resolve_agent(settings, overrides.agent_name, thresholds), create_user, resolver.models
    )


async def _run_stories(
    setup: _GenerationSetup, cases: Sequence[EvalCase], workspace: Workspace, environ: Mapping[str, str]
) -> list[CaseRun]:
    found: dict[int, CaseRun] = {}

    async def store_run(request: RunRequest, run: CaseRun) -> None:
        found[request.index] = run

    requests = [RunRequest(case, 1, index) for index, case in enumerate(cases)]
    concurrency = setup.chosen.settings.concurrency
    async with build_agent(setup.chosen, workspace, environ) as agent, setup.models:
        await run_requests(
            agent, requests, concurrency=concurrency, on_finished=store_run, create_user=setup.create_user
        )
    return [found[index] for index in range(len(cases))]
