"""`evalgate generate`: cases from stories that are played with the agent, or from what was recorded.

What the agent did becomes what it should do, so that a person must look at every case before it gates.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.agents.factory import ChosenAgent, built_agent, choose_agent
from evalgate.config.cli_overrides import Overrides, override
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.budget import Meter
from evalgate.config.schema.judge import UserConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core import registry
from evalgate.core.errors import InvalidInput, NoVerdict
from evalgate.core.formatting import counted
from evalgate.core.frozen import frozen
from evalgate.core.protocols import UserOf
from evalgate.core.types import CaseRun, EvalCase, EvalSet, Record, Reply, RunResult, Turn, UserMessage
from evalgate.datasets.conversion import Dataset, find_dataset, read_dataset
from evalgate.datasets.stories import read_stories
from evalgate.integrations.recordings import is_recording, read_recording
from evalgate.llm.resolver import Bench, JudgePlace, Judges
from evalgate.redaction.live_redactor import Hiding
from evalgate.redaction.redactor import Redactor
from evalgate.runner.scheduler import RunRequest, run_cases
from evalgate.runner.user_factory import choose_users
from evalgate.system.files import atomic_write
from evalgate.system.workspace import Workspace, open_workspace

REVIEW_RECORDED = (
    "Nobody has looked at these cases yet: what the agent did stands there as what it should do. Read each "
    "before it gates anything: are the calls, their arguments and the responses right?"
)
REVIEW_CONVERTED = (
    "Nobody has looked at these cases yet. Read each before it gates anything: is the response the one to "
    "compare with, and which tool calls belong to it?"
)


@frozen
class Wish:
    """What cases are made from, and where they go."""

    to: str
    """The format."""
    out: str
    """The file, which must not exist."""
    stories: str | None = None
    recorded: str | None = None
    """A record, traces, conversations or an eval set: then nothing is played."""
    thresholds: str | None = None


@frozen
class Generated:
    """What was made."""

    cases: tuple[str, ...]
    """One sentence for each, with what a person must look at."""
    missing: tuple[str, ...]
    """One sentence for each story or recording that gave no case, and for what the format cannot hold."""
    is_whole: bool
    """Whether every story and recording gave one."""
    review: str
    """What a person must look at before the cases gate anything."""


def name_out(source: str | None) -> str:
    """Return the file that is written when the user names none, after the file that is read.

    It stands where the thresholds file of `evalgate init` looks for eval sets.
    """
    return f"evals/{Path(source or 'cases').name.partition('.')[0]}.evalset.json"


def generate(
    wish: Wish, said: Overrides, folder: Path, environ: Mapping[str, str], hiding: Hiding
) -> Generated:
    """Make the cases and write them to the file.

    Raises:
        InvalidInput: the input is wrong, or the file exists.
        NoVerdict: there is no case to write.
    """
    workspace, writer = open_workspace(folder), registry.writer(wish.to)
    if (wish.stories is None) == (wish.recorded is None):
        raise InvalidInput("name a file of stories, or what was recorded with --from FILE: one of the two")
    if (workspace.folder / wish.out).exists():
        raise InvalidInput(f"{wish.out}: exists already, and is never overwritten: name another file")
    dataset = _find_dataset(wish, workspace)
    unsaid: tuple[str, ...] = ()
    if dataset is not None:
        converted = read_dataset(dataset, wish.recorded or "")
        found, missing, unsaid = converted.eval_set, list(converted.missing), converted.lost
    elif wish.recorded is not None:
        found, missing = _recorded(workspace.folder / wish.recorded, wish.recorded)
    else:
        found, missing = _played(wish, said, workspace, environ)
    if not found.cases:
        raise NoVerdict("; ".join(missing) or "nothing was recorded that a case could be made from")
    found = hiding.tree(replace(found, eval_set_id=Path(wish.out).name.partition(".")[0], path=wish.out))
    written = writer.write(found)
    _write(written.text, wish.out, workspace)
    lost = tuple(f"{wish.out}: {sentence}" for sentence in written.lost)
    cases = tuple(map(_to_review, found.cases))
    review = REVIEW_RECORDED if dataset is None else REVIEW_CONVERTED
    return Generated(cases, (*missing, *unsaid, *lost), is_whole=not missing, review=review)


def _write(text: str, out: str, workspace: Workspace) -> None:
    try:
        (workspace.folder / out).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(workspace.folder / out, text, workspace.owner)
    except OSError as error:
        raise InvalidInput(f"{out}: cannot be written: {error.strerror}") from None


def _to_review(case: EvalCase) -> str:
    if case.scenario is not None:
        return f"{case.eval_id}: a scenario, which a simulated user plays"
    calls = sum(len(turn.expected.tool_calls) for turn in case.turns)
    what = f"{counted(len(case.turns), 'turn')}, {counted(calls, 'tool call')}"
    silent = [str(number) for number, turn in enumerate(case.turns, 1) if turn.expected.response is None]
    more = f"; no response in turn {', '.join(silent)}" if silent else ""
    return f"{case.eval_id}: {what}{more}"


# --- data sets that are no eval sets ------------------------------------------------------------------------


def _find_dataset(wish: Wish, workspace: Workspace) -> Dataset | None:
    """Return the data set that cases are made from; None for stories, recordings and eval sets."""
    if wish.recorded is None:
        return None
    path = workspace.folder / wish.recorded
    return None if is_recording(path, wish.recorded) else find_dataset(path, wish.recorded)


# --- what was recorded --------------------------------------------------------------------------------------


def _recorded(path: Path, shown_as: str) -> tuple[EvalSet, list[str]]:
    recording = read_recording(path, shown_as)
    if isinstance(recording, Record):
        return _of_record(recording)
    cases = [_as_expected(case) for case in recording.cases]
    missing = [f"{case.eval_id}: no conversation is recorded" for case in cases if not case.turns]
    unique = {case.eval_id: case for case in reversed(cases) if case.turns}
    kept = tuple(case for case in cases if unique.get(case.eval_id) is case)
    return replace(recording, cases=kept), missing


def _as_expected(case: EvalCase) -> EvalCase:
    if case.recorded is None:
        return case
    turns = [replace(turn, expected=reply) for turn, reply in zip(case.turns, case.recorded, strict=False)]
    return replace(case, turns=tuple(turns), recorded=None)


def _of_record(record: Record) -> tuple[EvalSet, list[str]]:
    cases, missing = [], []
    several = len({case.eval_set_id for case in record.cases}) > 1
    for case in record.cases:
        name = f"{case.eval_set_id}-{case.eval_id}" if several else case.eval_id
        run = next((run for run in case.runs if run.outcome == "answered"), None)
        turns = tuple(_turns_of(run)) if run else ()
        if turns:
            cases.append(EvalCase(name, turns, tags=case.tags))
        else:
            missing.append(f"{name}: no run was answered, so there is no case")
    return EvalSet("recorded", tuple(cases)), missing


def _turns_of(run: RunResult) -> Iterator[Turn]:
    for turn in run.turns:
        if turn.actual is not None:
            yield Turn(UserMessage(turn.user), turn.actual)


# --- what is played -----------------------------------------------------------------------------------------


@frozen
class _Stage:
    chosen: ChosenAgent
    users: UserOf
    judges: Judges


def _played(
    wish: Wish, said: Overrides, workspace: Workspace, environ: Mapping[str, str]
) -> tuple[EvalSet, list[str]]:
    stories = wish.stories or ""
    asked = read_stories(workspace.folder / stories, stories)
    stage = _stage(_rules(wish.thresholds, workspace), said, asked, environ)
    runs = asyncio.run(_play(stage, asked.cases, workspace, environ))
    cases, missing = [], []
    for case, run in zip(asked.cases, runs, strict=True):
        turns = tuple(_turns(run.said, run.replies))
        if run.outcome == "answered" and turns:
            # Only there a story is a part of the case; elsewhere it would be told as lost.
            journey = case.journey if wish.to == "orchestrate" else None
            cases.append(replace(case, turns=turns, scenario=None, journey=journey))
        else:
            why = (
                f"{run.outcome}: {run.failure.message}" if run.failure else "the simulated user said nothing"
            )
            missing.append(f"{stories}:{case.line}: {case.eval_id}: {why}")
    return replace(asked, cases=tuple(cases)), missing


def _turns(said: Sequence[UserMessage], replies: Sequence[Reply | None]) -> Iterator[Turn]:
    for message, reply in zip(said, replies, strict=False):
        if reply is not None:
            yield Turn(message, reply)


def _rules(thresholds: str | None, workspace: Workspace) -> Thresholds:
    if thresholds is not None:
        return load_thresholds(workspace.folder / thresholds, thresholds)
    found = find_thresholds_file(workspace.folder)
    if found is None:
        return Thresholds(Config(), workspace.folder)
    return load_thresholds(found, workspace.shown(found))


def _stage(rules: Thresholds, said: Overrides, asked: EvalSet, environ: Mapping[str, str]) -> _Stage:
    config = override(rules.config, said)
    if config.agent is None:
        raise InvalidInput("no agent: give --agent KIND:WHAT, or an `agent` section in the thresholds file")
    settings, config = config.agent, config.model_copy(update={"user": config.user or UserConfig()})
    hiding = Hiding(Redactor.of(environ, ()))
    place = JudgePlace(rules.base, environ, Meter(config.budget), config.prices, hiding=hiding)
    bench = Bench(Judges(place), config.judge, is_decreed=said.judge is not None)
    users = choose_users(rules, config, {}, bench, [asked])
    bench.judges.check()
    return _Stage(choose_agent(settings, said.kind_and_what[1], rules), users, bench.judges)


async def _play(
    stage: _Stage, cases: Sequence[EvalCase], workspace: Workspace, environ: Mapping[str, str]
) -> list[CaseRun]:
    found: dict[int, CaseRun] = {}

    async def keep(request: RunRequest, run: CaseRun) -> None:
        found[request.index] = run

    requests = [RunRequest(case, 1, index) for index, case in enumerate(cases)]
    concurrency = stage.chosen.settings.concurrency
    async with built_agent(stage.chosen, workspace, environ) as agent, stage.judges:
        await run_cases(agent, requests, concurrency=concurrency, on_finished=keep, user_of=stage.users)
    return [found[index] for index in range(len(cases))]
