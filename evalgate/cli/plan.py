"""Command `evalgate plan`: its options and arguments. The work is done in `power_report`."""

import math
import os
from pathlib import Path

import click

from evalgate.cli.options import in_project_directory, require_nonempty, thresholds_file
from evalgate.cli.project_folder import BASELINE
from evalgate.cli.redacted_output import print_json, print_report


def _require_number(_context: click.Context, parameter: click.Parameter, value: float) -> float:
    # `FloatRange` does not refuse NaN, because every comparison with NaN is false.
    if math.isnan(value):
        raise click.BadParameter("nan is no number.", param=parameter)
    return value


@click.command()
@click.option(
    "--drop",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    metavar="DROP",
    callback=_require_number,
    help="Drop of a metric's mean that the gate should catch, as a share of the range of its scores.",
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.99),
    default=0.8,
    show_default=True,
    metavar="SHARE",
    callback=_require_number,
    help="Share of the gate's runs that should catch such a drop.",
)
@click.option(
    "--cases",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Size of the suite.  [default: as many as the baseline has, else the eval sets]",
)
@click.option(
    "--runs", type=click.IntRange(1, 50), metavar="N", help="Show this number of runs of each case, too."
)
@click.option(
    "--baseline",
    type=BASELINE,
    metavar="WHERE",
    callback=require_nonempty,
    help="Baseline to plan from.  [default: `gate.baseline`, else .evalgate/baseline.json]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@thresholds_file
@in_project_directory
def plan(
    drop: float,
    power: float,
    cases: int | None,
    runs: int | None,
    baseline: str | None,
    as_json: bool,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Plan the cases and runs that show a drop, and their cost.

    Runs nothing. Computes the figures from the stored runs of the baseline, or if there is none from
    assumptions that it prints.
    """
    from evalgate.cli.power_plan_text import format_power_plan
    from evalgate.cli.power_report import PlanRequest, build_power_plan
    from evalgate.redaction.live_redactor import LiveRedactor

    request = PlanRequest(drop, power, cases, runs, baseline, thresholds)
    with LiveRedactor.from_environment(os.environ).redact_errors():
        found = build_power_plan(request, Path(working_directory))
    if as_json:
        print_json(found.as_json())
    else:
        print_report(format_power_plan(found))
    return 0
