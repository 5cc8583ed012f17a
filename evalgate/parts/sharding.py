"""One shard's part of a plan, and the whole again from all shards."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evalgate import __version__
from evalgate.conclusion import Made
from evalgate.errors import InvalidInput, NoVerdict, Problem
from evalgate.evaluation import Evaluation
from evalgate.gate import INTERRUPTED, NO_VERDICT, OPEN
from evalgate.model import AgentInfo, Baseline, CaseResult, PlanId, Record, Shard, Verdict
from evalgate.parts.identity import plan_id
from evalgate.parts.journal import Finished
from evalgate.parts.shardruns import find_contradictions
from evalgate.parts.shares import case_seconds, shares
from evalgate.plan import Plan
from evalgate.spending import left_undone
from evalgate.summary import summarise, total


def shard_of(plan: Plan, index: int, count: int, baseline: Baseline | None) -> Shard:
    """Which cases shard `index` (1-based) of `count` runs: every machine finds the same.

    Raises:
        InvalidInput: nobody knows beforehand how often the cases are run.
    """
    if plan.runs == "auto":
        raise InvalidInput(
            "`runs: auto` looks at all cases before it runs one again, so it cannot be sharded: give --runs N"
        )
    cases = _cases(plan)
    share = shares(case_seconds(cases, baseline), count)[index - 1]
    return Shard(index, count, share, len(cases), plan_id(plan))


def shard_record(plan: Plan, evaluation: Evaluation, shard: Shard, made: Made) -> Record:
    """The record of a part: it has results, but no verdict on the agent."""
    results = evaluation.results()
    cases = tuple(results[index] for index in shard.cases)
    return Record(
        evalgate_version=__version__,
        created_at=made.created_at,
        duration_s=made.duration_s,
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.what),
        runs=plan.fixed_runs,
        verdict=_verdict(evaluation, shard, cases),
        metrics=summarise(cases),
        cases=cases,
        totals=total(cases),
        notices=plan.bench.judges.use.notices,
        shard=shard,
        judge=evaluation.judged,
    )


def _verdict(evaluation: Evaluation, shard: Shard, cases: Sequence[CaseResult]) -> Verdict:
    name = f"Shard {shard.index} of {shard.count}"
    if evaluation.interrupted:
        return Verdict("error", INTERRUPTED, (f"{name} was interrupted. Resume it with --resume.",))
    if evaluation.unreachable:
        return Verdict(
            "error", NO_VERDICT, (f"{name}: the agent could not be reached: {evaluation.unreachable}",)
        )
    health = evaluation.judge_health
    if health is not None and not health.is_reliable:
        missed = ", ".join(health.missed)
        return Verdict("error", NO_VERDICT, (f"{name}: {health.sentence}. Missed: {missed}.",))
    undone = tuple(left_undone(cases, more_wanted=False, why=evaluation.spending.why))
    if undone:
        return Verdict("error", NO_VERDICT, tuple(f"{name}: {sentence}" for sentence in undone))
    sentence = f"{name} is done. `evalgate merge` gives the verdict when all {shard.count} are."
    return Verdict("inconclusive", OPEN, (sentence,))


def finished_runs(plan: Plan, records: Sequence[tuple[str, Record]], *, may_follow_up: bool) -> Finished:
    """The runs of all shards, by the index of their case.

    `may_follow_up`: a shard may have made more runs of a case than the plan says.

    Raises:
        InvalidInput: a shard is doubled, of another run, or contradicts itself; with every problem.
        NoVerdict: a shard is missing or did not come to its end.
    """
    wrong = dict.fromkeys([*_foreign(plan, records), *_doubled(records)])
    incomplete = list(_incomplete(records))
    if not wrong:
        wrong = dict.fromkeys(find_contradictions(plan, records, may_follow_up=may_follow_up))
    if wrong:
        raise InvalidInput([*wrong, *incomplete])
    if incomplete:
        raise NoVerdict("\n".join(map(str, incomplete)))
    return {
        index: case.runs
        for _, record in records
        if record.shard is not None
        for index, case in zip(record.shard.cases, record.cases, strict=True)
    }


def as_written(record: Record, records: Sequence[tuple[str, Record]]) -> Record:
    """The merged record, with the cases of its shards themselves where nothing changed in them."""
    cases = list(record.cases)
    for _, part in records:
        if part.shard is not None:
            for index, case in zip(part.shard.cases, part.cases, strict=True):
                if cases[index] == case:
                    cases[index] = case
    return replace(record, cases=tuple(cases))


def _foreign(plan: Plan, records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    own, cases = plan_id(plan), _cases(plan)
    for path, record in records:
        shard = record.shard
        if shard is None:
            yield Problem(path, 0, 0, "is no shard: it was not made with --shard")
        elif record.evalgate_version != __version__:
            version = record.evalgate_version
            yield Problem(
                path, 0, 0, f"was made by evalgate {version}, and this is {__version__}: merge with it"
            )
        elif found := _difference(shard.plan, own):
            yield Problem(path, 0, 0, f"is a shard of another run: {found} differ from what is here")
        elif [cases[index] for index in shard.cases if index < len(cases)] != [
            (case.eval_set_id, case.eval_id) for case in record.cases
        ]:
            yield Problem(path, 0, 0, "does not hold the cases of its shard: somebody edited it")


def _difference(then: PlanId, now: PlanId) -> str:
    pairs = (
        ("eval sets", then.eval_sets, now.eval_sets),
        ("thresholds", then.thresholds, now.thresholds),
        ("agent or its code", then.agent, now.agent),
    )
    return " and ".join(what for what, one, other in pairs if one != other)


def _doubled(records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    shards = [(path, record.shard) for path, record in records if record.shard is not None]
    counts = {shard.count for _, shard in shards}
    if len(counts) > 1:
        yield Problem("", 0, 0, f"the shards are of different runs: of {_listed(counts)} parts")
        return
    times = Counter(shard.index for _, shard in shards)
    for path, shard in shards:
        if times[shard.index] > 1:
            yield Problem(path, 0, 0, f"shard {shard.index} is given {times[shard.index]} times")


def _incomplete(records: Sequence[tuple[str, Record]]) -> Iterator[Problem]:
    shards = [record.shard for _, record in records if record.shard is not None]
    for path, record in records:
        if record.shard is not None and record.verdict.status == "error":
            yield Problem(path, 0, 0, f"is not whole: {record.verdict.reasons[0]}")
    count = max((shard.count for shard in shards), default=1)
    missing = set(range(1, count + 1)) - {shard.index for shard in shards}
    if missing and len({shard.count for shard in shards}) == 1:
        yield Problem("", 0, 0, f"shard {_listed(missing)} of {count} is missing")


def _listed(numbers: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _cases(plan: Plan) -> list[tuple[str, str]]:
    return [
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.heads
    ]
