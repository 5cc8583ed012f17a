"""Measure the gate's statistics: the time of a decision, and how often decisions are right."""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

from benchmarks import anchor, controlruns, falsealarms, matrix
from evalgate.statistics.auto_runs import plan_next_step
from evalgate.statistics.metric_decisions import decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.power_simulation import simulate_procedure
from evalgate.statistics.score_pairs import CaseScores, ScoreTable

REPEATS = 1_000
BASELINE_RUNS = 10
BROKEN = 0.02

# Number of cases to scenario to (FAIL %, runs per case) of `runs: auto`, as the procedure's authors simulated it.
# Scores are binary, with 10 baseline runs; 60 % of the cases almost always pass, 10 % almost always fail, and 30 %
# are flaky.
REFERENCE = {
    20: {
        "no change": (3.7, 1.86),
        "-5 points": (31.2, 2.76),
        "-10 points": (71.9, 2.79),
        "-20 points": (97.0, 1.65),
        "1 case broken": (93.4, 1.32),
        "2 cases broken": (99.8, 1.32),
    },
    50: {
        "no change": (1.6, 1.52),
        "-5 points": (44.7, 2.53),
        "-10 points": (91.3, 1.91),
        "-20 points": (99.8, 1.09),
        "1 case broken": (90.8, 1.19),
        "2 cases broken": (99.5, 1.20),
    },
}


def main(options=()):
    """Print the time of decisions, and the error rates of the statistical procedure next to `REFERENCE`.

    With options, measure the whole gate instead, or its control runs (`--control`), `gate.anchor` over many merges
    (`--anchor`), or the conclusions of `evalgate matrix` (`--matrix`).
    """
    if "--matrix" in options:
        matrix.main(_parse(options).repeats)
        return
    if "--control" in options:
        _measure_control(_parse(options))
        return
    if options:
        _measure_gate(_parse(options))
        return
    _speed()
    for cases, scenarios in REFERENCE.items():
        print(f"\n{cases} cases, {REPEATS:,} repetitions: FAIL %, runs per case (reference)   inconclusive %")
        for name, (percent, runs) in scenarios.items():
            failed, undecided, spent = _simulated(cases, name)
            print(
                f"  {name:15} {failed:5.1f} ({percent:5.1f})   {spent:4.2f} ({runs:4.2f})   {undecided:4.1f}"
            )
            sys.stdout.flush()


def _parse(options):
    parser = argparse.ArgumentParser(prog="python -m benchmarks statistics", description=falsealarms.__doc__)
    parser.add_argument("--gate", action="store_true", help="every cell, where nothing else picks some")
    parser.add_argument("--control", action="store_true", help="with control runs: every drift and change")
    parser.add_argument("--anchor", action="store_true", help="an agent that erodes, and `gate.anchor`")
    parser.add_argument("--matrix", action="store_true", help="the sentences of `evalgate matrix` instead")
    for name, values in {
        "cases": (5, 20, 60, 200),
        "runs": (1, 3, 5, "auto"),
        "stored": (1, 3, 5, 10, 20),
        "metrics": (1, 4),
        "tags": ("no", "yes"),
        "suites": ("realistic", "typical"),
        "changes": falsealarms.CHANGES,
        "control-changes": controlruns.CHANGES,
        "drifts": controlruns.DRIFTS,
    }.items():
        listed = ",".join(map(str, values))
        parser.add_argument(f"--{name}", type=_as_list, default=list(values), metavar=listed)
    parser.add_argument("--repeats", type=int, default=100, help="of a cell with up to 20 cases; else fewer")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="keep what was measured, and do not measure it again")
    parser.add_argument("--table", action="store_true", help="print the tables of what --out holds")
    return parser.parse_args(options)


def _as_list(text):
    return [int(each) if each.isdigit() else each for each in text.split(",")]


def _measure_gate(args):
    if args.anchor:
        anchor.main(args.repeats, args.processes)
        return
    founds = list(falsealarms.read(args.out)) if args.table else []
    cells = [] if args.table else falsealarms.list_cells(args)
    for found in falsealarms.measure(cells, args.repeats, args.processes, None if args.table else args.out):
        founds.append(found)
        print(falsealarms.format_line(found), flush=True)
    print(*falsealarms.table(founds), sep="\n")
    missed = [(found, list(falsealarms.list_missed_goals(found))) for found in founds]
    print(f"\n{sum(bool(goals) for _, goals in missed)} of {len(founds)} cells miss a goal for certain")
    for found, goals in missed:
        if goals:
            print(f"  {', '.join(goals)}: {falsealarms.format_line(found)}")


def _measure_control(args):
    founds = list(controlruns.read(args.out)) if args.table else []
    cells = [] if args.table else controlruns.list_cells(args)
    for found in controlruns.measure(cells, args.repeats, args.processes, None if args.table else args.out):
        founds.append(found)
        print(controlruns.format_line(found), flush=True)
    print(*controlruns.table(founds), *controlruns.list_rows(3 * REPEATS), sep="\n")


def _speed():
    dice = random.Random(1)
    floor = _milliseconds(lambda: sorted(dice.random() for _ in range(100_000)))
    print(f"sorting 100,000 random numbers       {floor:6.1f} ms")
    for kind in ("binary scores", "judge scores"):
        table = {"metric": ScoreTable(_suite(1_000, kind, dice))}
        fixed = _milliseconds(lambda table=table: decide_without_follow_ups(table, Parameters(runs=5)))
        auto = _milliseconds(lambda table=table: plan_next_step(table, Parameters(case_alpha=1e-9)))
        print(
            f"1,000 cases x (10 + 5), {kind:13} {fixed:6.1f} ms   x {fixed / floor:4.2f}   AUTO {auto:6.1f} ms"
        )


def _milliseconds(work):
    durations = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations) * 1000


def _suite(cases, kind, dice):
    """Return scores of an agent that got worse by 5 points, so that `runs: auto` needs several rounds."""
    chances = _chances(cases, dice)
    draw = {
        "binary scores": lambda chance: float(dice.random() < chance),
        "judge scores": lambda chance: round(min(1.0, max(0.0, dice.gauss(chance, 0.15))), 3),
    }[kind]
    return {
        f"case {index}": CaseScores(
            [draw(chance) for _ in range(BASELINE_RUNS)], [draw(chance * 0.955) for _ in range(5)]
        )
        for index, chance in enumerate(chances)
    }


def _chances(cases, dice):
    """Return the chance to pass for each case of a typical suite: 60 % stable, 10 % failing, 30 % flaky."""
    stable, failing = round(0.6 * cases), round(0.1 * cases)
    flaky = [dice.uniform(0.3, 0.95) for _ in range(cases - stable - failing)]
    return [0.995] * stable + [BROKEN] * failing + flaky


def _simulated(cases, scenario):
    verdicts, runs = [], 0
    for repeat in range(REPEATS):
        dice = random.Random(f"{cases}/{scenario}/{repeat}")
        before = {f"case {index}": chance for index, chance in enumerate(_chances(cases, dice))}
        after = _changed(before, scenario)
        baseline = {
            case: [{"metric": float(dice.random() < chance)} for _ in range(BASELINE_RUNS)]
            for case, chance in before.items()
        }
        decision = simulate_procedure(
            ["metric"],
            {"metric": MetricRule()},
            baseline,
            lambda case, dice=dice, after=after: {"metric": float(dice.random() < after[case])},
            Parameters(),
        )
        verdicts.append(decision.verdict)
        runs += decision.cost.spent
    share = 100 / REPEATS
    return verdicts.count("fail") * share, verdicts.count("inconclusive") * share, runs / REPEATS / cases


def _changed(before, scenario):
    """Return the chances to pass after the change of `scenario`. Stable cases break first."""
    if scenario.endswith("broken"):
        return before | dict.fromkeys(list(before)[: int(scenario.split()[0])], BROKEN)
    points = 0 if scenario == "no change" else int(scenario.split()[0])
    mean = sum(before.values()) / len(before)
    return {case: chance * (1 + points / 100 / mean) for case, chance in before.items()}
