"""`evalgate flaky`: how often each case changes its mind, and which to let rest."""

import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from evalgate.baseline import flakiness_of
from evalgate.frozen import frozen
from evalgate.hostile import json_for_log, log_line
from evalgate.model import Baseline
from evalgate.numbers import counted
from evalgate.statistics.flakiness import Flakiness

PROPOSED = 0.1
"""From this flip rate on a case is proposed: it would disagree with itself in one of ten pairs of runs."""

_DAYS = 30


@frozen
class Flaky:
    """A case and how it behaves."""

    name: str
    """`eval set:case`, as a quarantine calls it."""
    found: Flakiness


def flaky_cases(baseline: Baseline, thresholds: Mapping[str, float], *, pass_score: float) -> list[Flaky]:
    """Every case with at least two runs, the flakiest first. A run passes when each of its scores does."""
    found = [
        Flaky(f"{eval_set_id}:{eval_id}", flakiness)
        for (eval_set_id, eval_id), flakiness in flakiness_of(baseline, thresholds, pass_score).items()
    ]
    return sorted(found, key=lambda each: -(each.found.flip_rate or 0.0))


def as_text(cases: list[Flaky], today: date) -> str:
    """A table of those that flip, and entries to paste into the quarantine file."""
    return "".join(f"{line}\n" for line in _lines(cases, today))


def _lines(cases: list[Flaky], today: date) -> Iterator[str]:
    flipping = [each for each in cases if each.found.flip_rate]
    for each in flipping:
        found = each.found
        yield (
            f"{found.flip_rate or 0:>4.0%} {log_line(each.name, 120)}: passed {found.passed} of "
            f"{found.runs} runs, the last {found.latest_passes} in a row"
        )
    steady = len(cases) - len(flipping)
    yield f"{len(flipping)} of {counted(len(cases), 'case')} flip; {steady:,} always ended the same way."
    proposed = [each for each in flipping if (each.found.flip_rate or 0.0) >= PROPOSED]
    if proposed:
        yield "\n# Entries for gate.quarantine; say who mends each of them:"
        yield from (_entry(each, today) for each in proposed)


def _entry(each: Flaky, today: date) -> str:
    about = {
        "case": each.name,
        "owner": "",
        "reason": f"passed {each.found.passed} of {each.found.runs} runs",
        "expires": (today + timedelta(days=_DAYS)).isoformat(),
    }
    # JSON is YAML, whatever the id of the case is made of.
    return f"- {json_for_log(json.dumps(about, ensure_ascii=False))}"
