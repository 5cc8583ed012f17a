"""The commands that look at stored runs: nothing is run again, unless `aa --rounds` asks for it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalgate.cli.options import baseline_file, not_empty, project_directory, thresholds_file
from evalgate.cli.parametertypes import BASELINE, FILE
from evalgate.cli.saying import say_all

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.argument("before", metavar="A", type=FILE)
@click.argument("after", metavar="B", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Verdict and metrics for programs.")
@thresholds_file
@project_directory
def compare(before: str, after: str, as_json: bool, thresholds: str | None, working_directory: str) -> int:
    """Hold B against A, each a results.json or a baseline, without running anything.

    Says what `evalgate run` would say, and ends with the same exit code.
    """
    from evalgate.commands.compare import compared, verdict_as_json
    from evalgate.reporters.terminal import TerminalReport

    record = compared(before, after, thresholds=thresholds, folder=Path(working_directory))
    say_all(verdict_as_json(record) if as_json else TerminalReport().render(record), is_json=as_json)
    return record.verdict.exit_code


@click.command()
@click.argument("results", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--baseline", type=BASELINE, metavar="FILE", callback=not_empty, help="In the place of `gate.baseline`."
)
@thresholds_file
@project_directory
def backtest(
    results: tuple[str, ...], baseline: str | None, thresholds: str | None, working_directory: str
) -> int:
    """Say which stored verdicts would be others under the thresholds file as it is now.

    RESULTS are results.json files. Each is held against the runs of the baseline that are older.
    """
    from evalgate.commands.backtest import as_text, backtested

    found = backtested(results, thresholds=thresholds, baseline=baseline, folder=Path(working_directory))
    say_all(as_text(found))
    return 0


@click.command()
@baseline_file
@thresholds_file
@project_directory
def flaky(to: str | None, thresholds: str | None, working_directory: str) -> int:
    """List how often each case changes its mind, by the baseline, and propose quarantines."""
    from evalgate.commands.compare import thresholds_in
    from evalgate.commands.flaky import as_text, flaky_cases
    from evalgate.commands.keep import shelf_at

    shelf = shelf_at(Path(working_directory), to, thresholds)
    rules = thresholds_in(shelf.workspace.folder, thresholds)
    held = {criterion.metric: criterion.threshold for criterion in rules.criteria}
    baseline = shelf.read()
    found = flaky_cases(baseline, held, pass_score=shelf.config.gate.statistics.pass_score)
    say_all(as_text(found, datetime.now(UTC).date(), of=len(baseline.cases)))
    return 0


@click.command()
@click.argument("stored", type=FILE, required=False, metavar="[RESULTS]")
@click.option(
    "--rounds",
    type=click.IntRange(3, 1000),
    metavar="N",
    help="Play the agent, every case N times, instead of drawing from stored runs.",
)
@click.option(
    "--repeats",
    type=click.IntRange(10, 100_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Trials that are drawn from stored runs.",
)
@thresholds_file
@project_directory
def aa(
    stored: str | None, rounds: int | None, repeats: int, thresholds: str | None, working_directory: str
) -> int:
    """Hold the agent against itself: how often the gate alarms although nothing changed.

    RESULTS is a results.json or a baseline with at least three runs of each case, better ten; the baseline of
    the thresholds file when absent.
    """
    from evalgate.commands.aa import as_text
    from evalgate.commands.selfcheck import checked_against_itself

    found = checked_against_itself(
        stored, rounds=rounds, repeats=repeats, thresholds=thresholds, folder=Path(working_directory)
    )
    say_all(as_text(found))
    return 0


COMMANDS: "Sequence[click.Command]" = (compare, backtest, flaky, aa)
