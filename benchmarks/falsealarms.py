"""Measure how often the gate is right: simulated outcomes pass through the whole gate, with the settings of `init`.

A cell is one combination of suite, change and settings.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import lru_cache
from itertools import product
from pathlib import Path

from benchmarks.gatechain import CRASH, Chain, Dice, Outcome, Setup
from evalgate.core.frozen import frozen
from evalgate.statistics.threshold_test import compute_wilson_interval

STEADY, BROKEN, RARE = 0.995, 0.02, 0.9
CHANGES = ("none", "broken", "crash", "-10 points")
GOALS = {"red": 0.05, "found": 0.90, "inconclusive": 0.10}
"""Goals as shares. `red`: at most so many false alarms. `found`: at least so often a broken steady case is found, with
3 or more stored runs. `inconclusive`: at most so many inconclusive verdicts, with 20 or more cases."""


@frozen
class Cell:
    """One combination of suite, change and settings."""

    suite: str
    """`realistic` or `typical`."""
    change: str
    """One of `CHANGES`: no change; one steady case passes only 2 % of its runs; one crashes every time; all cases
    pass less often, so that the average falls by 10 points."""
    cases: int
    runs: int | str
    stored: int
    """Runs of every case in the baseline."""
    metrics: int
    is_tagged: bool

    @property
    def goal(self) -> str:
        """Return the wanted share of red verdicts: `few`, `most`, or "" without a goal."""
        if self.change == "none":
            return "few"
        return "most" if self.change in {"broken", "crash"} and self.stored >= 3 else ""


@frozen
class Found:
    """Results of the gate in one cell, counted over all repetitions."""

    cell: Cell
    repeats: int
    red: int
    """Repetitions in which the gate closed or had no verdict."""
    inconclusive: int
    """Repetitions with the verdict `inconclusive`."""
    made: int
    """Runs of all cases in all repetitions."""
    reasons: dict[str, int]
    """Counts of the four most frequent reasons of verdicts other than `pass`."""

    @property
    def runs_per_case(self) -> float:
        """Return the mean number of runs of a case."""
        return self.made / self.repeats / self.cell.cases


def list_chances(suite: str, cases: int, dice: random.Random) -> list[float]:
    """Return the chance of each case to pass a run, the steady ones first.

    Realistic: 5 % of the cases pass with the chance 0.9, all others with 0.995. Typical: 60 % with 0.995, 10 % with
    0.02, and 30 % with a chance between 0.3 and 0.95.
    """
    if suite == "realistic":
        rare = round(0.05 * cases)
        return [STEADY] * (cases - rare) + [RARE] * rare
    steady, failing = round(0.6 * cases), round(0.1 * cases)
    return (
        [STEADY] * steady
        + [BROKEN] * failing
        + [dice.uniform(0.3, 0.95) for _ in range(cases - steady - failing)]
    )


@lru_cache(maxsize=1)
def open_chain(setup: Setup) -> Chain:
    """Return the gate for `setup`. It is created once and then cached for all repetitions of a cell."""
    return Chain(setup)


def play(cell: Cell, repeats: int, seed: int = 0) -> Found:
    """Let the gate decide `repeats` simulated changes, and count the verdicts. Equal seeds give equal results."""
    chain = open_chain(Setup(cell.cases, cell.runs, cell.metrics, cell.is_tagged))
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    made = 0
    for repeat in range(repeats):
        record = chain.run(*_situation(cell, chain, f"{seed}/{cell}/{repeat}"))
        verdicts[record.verdict.status] += 1
        made += sum(len(case.runs) for case in record.cases)
        if record.verdict.status != "pass":
            reasons[_kind(record.verdict.reasons[0])] += 1
    red = verdicts["fail"] + verdicts["error"]
    return Found(cell, repeats, red, verdicts["inconclusive"], made, dict(reasons.most_common(4)))


def _situation(cell: Cell, chain: Chain, seed: str):
    """Return a simulated baseline, and a function that draws the outcome of a run after the change."""
    dice = Dice(seed, chain.metrics)
    before = list_chances(cell.suite, cell.cases, dice.random)
    baseline = chain.store_runs([[dice.draw(chance) for _ in range(cell.stored)] for chance in before])
    after = before
    if cell.change == "-10 points":
        mean = sum(before) / len(before)
        after = [chance * (1 - 0.1 / mean) for chance in before]
    missed = dice.draw_missed()

    def draw(index: int, run: int) -> Outcome:
        del run
        if index == 0 and cell.change == "crash":
            return CRASH
        if index == 0 and cell.change == "broken":
            return frozenset() if dice.random.random() < BROKEN else missed
        return dice.draw(after[index])

    return baseline, draw


def _kind(reason: str) -> str:
    """Return the kind of a verdict's reason, without names and figures."""
    signs = {
        "below its threshold": "mean below its threshold",
        "below its minimum": "mean below its minimum",
        "broke:": "case broke",
        "Regression:": "average fell",
        "crashed or timed out": "crash",
        "missed a threshold": "case missed its threshold",
        "Can't tell": "can't tell",
    }
    return next((kind for sign, kind in signs.items() if sign in reason), reason[:60])


def list_cells(args) -> Iterator[Cell]:
    """Yield every combination of the values in the options as a cell, in the order of `args.cases`."""
    for cases, suite, change, stored, runs, metrics, tags in product(
        args.cases, args.suites, args.changes, args.stored, args.runs, args.metrics, args.tags
    ):
        yield Cell(suite, change, cases, runs, stored, metrics, tags == "yes")


def count_repeats(cell: Cell, repeats: int) -> int:
    """Return the repetitions of a cell. Suites with more than 20 cases get fewer: half at 60 cases, 15 % at 200."""
    return max(10, round(repeats * min(1.0, 30 / cell.cases if cell.cases > 20 else 1.0)))


def measure(cells: Iterable[Cell], repeats: int, processes: int, out: Path | None) -> Iterator[Found]:
    """Yield the results of cells. Read those that the file `out` has; measure the others and append them to `out`."""
    known = {found.cell: found for found in read(out)} if out and out.exists() else {}
    wanted = list(cells)
    yield from (known[cell] for cell in wanted if cell in known)
    with ProcessPoolExecutor(processes) as pool:
        open_ = [
            pool.submit(play, cell, count_repeats(cell, repeats)) for cell in wanted if cell not in known
        ]
        for each in as_completed(open_):
            found = each.result()
            if out:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
            yield found


def read(file: Path) -> Iterator[Found]:
    """Yield the results that an earlier call of `measure` wrote to a file."""
    for line in file.read_text("utf-8").splitlines():
        value = json.loads(line)
        yield Found(**{**value, "cell": Cell(**value["cell"])})


def as_share(count: int, trials: int) -> str:
    """Format `count` of `trials` as a percentage with its 95 % interval."""
    low, high = compute_wilson_interval(count, trials)
    return f"{100 * count / trials:5.1f} ({100 * low:.0f}-{100 * high:.0f})"


def format_line(found: Found) -> str:
    """Format the results of a cell as one line of output."""
    cell = found.cell
    tags = "tags" if cell.is_tagged else ""
    why = ", ".join(f"{times} {kind}" for kind, times in found.reasons.items())
    return (
        f"{cell.suite:9} {cell.change:10} {cell.cases:3} cases  runs {cell.runs!s:4}  stored {cell.stored:2}  "
        f"{cell.metrics} metric{'s' if cell.metrics > 1 else ' '} {tags:4}  red {as_share(found.red, found.repeats):16}"
        f"inconclusive {as_share(found.inconclusive, found.repeats):16}runs/case {found.runs_per_case:5.2f}  {why}"
    )


def add_up_results(founds: Iterable[Found], keep: Iterable[str]) -> list[Found]:
    """Add up the results of cells with equal values of the fields in `keep`. A sum has its group's first cell."""
    names = tuple(keep)
    groups: dict[tuple[object, ...], list[Found]] = {}
    for found in founds:
        groups.setdefault(tuple(getattr(found.cell, name) for name in names), []).append(found)
    return [
        Found(
            group[0].cell,
            sum(each.repeats for each in group),
            sum(each.red for each in group),
            sum(each.inconclusive for each in group),
            sum(each.made for each in group),
            {},
        )
        for group in groups.values()
    ]


def list_missed_goals(found: Found) -> Iterator[str]:
    """Yield the names of goals that a cell misses even at the more favourable end of its 95 % interval."""
    low, high = compute_wilson_interval(found.red, found.repeats)
    if found.cell.goal == "few" and low > GOALS["red"]:
        yield "false alarms"
    if found.cell.goal == "most" and high < GOALS["found"]:
        yield "not found"
    doubtful, _ = compute_wilson_interval(found.inconclusive, found.repeats)
    if found.cell.cases >= 20 and found.cell.change == "none" and doubtful > GOALS["inconclusive"]:
        yield "inconclusive"


def table(founds: Sequence[Found]) -> Iterator[str]:
    """Yield the lines of the Markdown tables in docs/statistics.md."""
    runs = list(dict.fromkeys(str(found.cell.runs) for found in founds))
    by_depth = [found for found in founds if found.cell.change in {"none", "broken"}]
    yield from _grid(by_depth, ("suite", "cases", "stored"), runs, ("none", "broken"))
    deep = [found for found in by_depth if found.cell.stored >= 3]
    yield ""
    yield from _grid(deep, ("suite", "cases", "metrics", "is_tagged"), runs, ("none", "broken"))
    other = [found for found in founds if found.cell.change in {"crash", "-10 points"}]
    yield ""
    yield from _grid(other, ("suite", "cases", "stored"), runs, ("crash", "-10 points"))


def _grid(
    founds: Sequence[Found], rows: Sequence[str], runs: Sequence[str], changes: Sequence[str]
) -> Iterator[str]:
    """Yield a table's lines: one for each combination of the fields `rows`, with a column for each of `runs`.

    Results that differ only in other fields are added up.
    """
    groups: dict[tuple[object, ...], dict[tuple[str, str], Found]] = {}
    for found in add_up_results(founds, (*rows, "runs", "change")):
        key = tuple(getattr(found.cell, name) for name in rows)
        groups.setdefault(key, {})[found.cell.change, str(found.cell.runs)] = found
    yield f"| {' | '.join((*rows, *(f'runs {each}' for each in runs)))} |"
    yield f"|---|{'--:|' * (len(rows) + len(runs) - 1)}"
    for key in sorted(groups, key=build_sort_key):
        cells = [" / ".join(_shares(groups[key], changes, each)) for each in runs]
        labels = ["tags" if value is True else "none" if value is False else str(value) for value in key]
        yield f"| {' | '.join((*labels, *cells))} |"


def build_sort_key(key: Iterable[object]) -> tuple[tuple[float, str], ...]:
    """Return a sort key by which numbers are sorted by size, and texts alphabetically."""
    return tuple((0.0, each) if isinstance(each, str) else (float(each), "") for each in key)


def _shares(found: Mapping[tuple[str, str], Found], changes: Sequence[str], runs: str) -> Iterator[str]:
    for change in changes:
        cell = found.get((change, runs))
        yield "–" if cell is None else f"{100 * cell.red / cell.repeats:.1f}"
        if change == "none":
            yield "–" if cell is None else f"{100 * cell.inconclusive / cell.repeats:.1f}"
    last = found.get((changes[0], runs))
    if changes[0] == "none" and runs == "auto" and last is not None:
        yield f"@{last.runs_per_case:.2f}"
