"""What metrics and judges say of a case, a run or a turn."""

from collections.abc import Iterator, Mapping, Sequence

from evalgate.frozen import frozen
from evalgate.judge.health import agreement_told
from evalgate.model import CaseMetric, RunMetric, Status, TurnMetric
from evalgate.numbers import counted, shown
from evalgate.reporters.page.room import Room, Text
from evalgate.telling.findings import shown_threshold


@frozen
class Opinion:
    """One of several answers of a judge, or what it says of one rubric."""

    name: str
    score: str
    reason: Text
    remarks: tuple[str, ...]
    answer: Text | None
    """The judge's own words."""


@frozen
class Score:
    """One metric."""

    name: str
    status: Status
    score: str
    threshold: str
    baseline: str
    reason: Text
    agreement: str = ""
    """How far the judge agrees with itself."""
    opinions: tuple[tuple[str, tuple[Opinion, ...]], ...] = ()
    """What kind, and each of them."""
    details: Text | None = None


def case_scores(metrics: Sequence[CaseMetric], room: Room) -> Iterator[Score]:
    """The metrics of a case, over its runs."""
    for metric in metrics:
        if room.is_full:
            return
        held = f"{shown_threshold(metric.threshold)}{f' ({metric.scope})' if metric.scope else ''}"
        score = shown(metric.score, beside=metric.threshold)
        yield Score(metric.name, metric.status, score, held, _baseline(metric), room.text(metric.reason))


def _baseline(metric: CaseMetric) -> str:
    before = metric.standing
    if before is None or before.baseline_mean is None:
        return "–"
    passed = (
        f" ({before.baseline_passed} of {before.baseline_runs} passed)" if before.baseline_runs > 1 else ""
    )
    return f"{shown(before.baseline_mean, beside=before.mean)}{passed}"


def scores(metrics: Sequence[TurnMetric] | Sequence[RunMetric], room: Room) -> Iterator[Score]:
    """The metrics of a turn or a run; what the judge said stands with them."""
    for metric in metrics:
        if room.is_full:
            return
        details = dict(metric.details or {})
        agreed = details.pop("agreement", None)
        opinions = tuple(_opinions(details, room))
        yield Score(
            metric.name,
            metric.status,
            shown(metric.score),
            "",
            "",
            room.text(metric.reason),
            agreement_told(agreed) if isinstance(agreed, int | float) else "",
            opinions,
            room.json(details) if details else None,
        )


_OPINIONS = {"samples": "answer", "rubrics": "rubric", "rubric_scores": "rubric"}


def _opinions(details: dict[str, object], room: Room) -> Iterator[tuple[str, tuple[Opinion, ...]]]:
    """The lists of opinions that `details` hold, which are taken out of them."""
    for key, what in _OPINIONS.items():
        rows = details.get(key)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            continue
        del details[key]
        found = tuple(
            _opinion(row, what, number, room) for number, row in enumerate(rows, 1) if not room.is_full
        )
        more = f" ({len(rows) - len(found):,} left out)" if len(found) < len(rows) else ""
        yield f"{counted(len(rows), what)}{more}", found


def _opinion(row: Mapping[str, object], what: str, number: int, room: Room) -> Opinion:
    name = row.get("text") if what == "rubric" else None
    answer = row.get("text") if what != "rubric" else None
    score = row.get("score")
    return Opinion(
        name=str(name or row.get("id") or f"Answer {row.get('sample') or number}")[:_LONGEST_NAME],
        score=shown(score) if isinstance(score, int | float) else "–",
        reason=room.text(str(row.get("reason") or row.get("failure") or "")),
        remarks=tuple(_remarks(row)),
        answer=room.text(answer) if isinstance(answer, str) and answer else None,
    )


_LONGEST_NAME = 500


def _remarks(row: Mapping[str, object]) -> Iterator[str]:
    if isinstance(row.get("model"), str):
        yield str(row["model"])[:_LONGEST_NAME]
    if row.get("cached") is True:
        yield "from the cache"
    attempts = row.get("attempts")
    if isinstance(attempts, int) and attempts > 1:
        yield f"{attempts} attempts"
