"""Commands `evalgate results …`: list, show and compare the results of earlier runs."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from evalgate.cli.options import FullLineGroup, project_directory, thresholds_file
from evalgate.cli.redacted_output import print_json, print_report


@click.group(cls=FullLineGroup)
def results() -> None:
    """List, show and compare the results of earlier runs.

    `evalgate run` keeps them in .evalgate/history: 20, or as many as `--keep-results` says.
    """


@results.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@project_directory
def list_(as_json: bool, working_directory: str) -> int:
    """List the kept results with their metrics, newest first."""
    from evalgate.reporting.results_history import list_results

    rows = [_summarize(each.result_id, each.path) for each in list_results(Path(working_directory))]
    if as_json:
        print_json(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    else:
        print_report("\n".join(_format_list(rows)) + "\n")
    return 0


@results.command()
@click.argument("which", metavar="[RESULT]", default="1")
@project_directory
def show(which: str, working_directory: str) -> int:
    """Print the report of a kept result.

    RESULT is an id from `evalgate results list`, the beginning of one, or a number: 1 is the newest.
    """
    from evalgate.datasets.results_io import read_record
    from evalgate.reporting.results_history import find_result
    from evalgate.reporting.terminal import TerminalReport

    found = find_result(Path(working_directory), which)
    print_report(TerminalReport().render(read_record(found.path, str(found.path))))
    return 0


@results.command()
@click.argument("before", metavar="[A]", default="2")
@click.argument("after", metavar="[B]", default="1")
@thresholds_file
@project_directory
def diff(before: str, after: str, thresholds: str | None, working_directory: str) -> int:
    """Compare two kept results, by default the newest two.

    B is compared with A. Each is an id from `evalgate results list`, the beginning of one, or a number: 1 is
    the newest. Nothing is run. Ends with the exit code of the comparison.
    """
    from evalgate.cli.compare import compare_results
    from evalgate.reporting.results_history import find_result
    from evalgate.reporting.terminal import TerminalReport

    folder = Path(working_directory)
    paths = [str(find_result(folder, each).path.relative_to(folder)) for each in (before, after)]
    record = compare_results(*paths, thresholds=thresholds, folder=folder)
    print_report(TerminalReport().render(record))
    return record.verdict.exit_code


def _summarize(result_id: str, path: Path) -> dict[str, Any]:
    """Return a kept result in brief, as `--json` prints it."""
    from evalgate.datasets.results_io import read_record

    record = read_record(path, str(path))
    totals = record.totals
    return {
        "id": result_id,
        "verdict": record.verdict.status,
        "agent": f"{record.agent.kind}:{record.agent.what}",
        "runs": record.runs,
        "cases": totals.cases,
        "passed": totals.passed,
        "failed": totals.failed,
        "errored": totals.errored,
        "metrics": [
            {"name": metric.label, "score": metric.score, "threshold": metric.threshold}
            for metric in record.metrics
        ],
    }


def _format_list(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each result, and one for each of its metrics."""
    from evalgate.core.formatting import format_score

    if not rows:
        yield "No results are kept yet. `evalgate run` keeps them."
    for number, row in enumerate(rows, 1):
        counts = f"{row['passed']} of {row['cases']} passed"
        yield f"{number:>3}  {row['id']}  {row['verdict']:<12}  {counts}  {row['agent']}"
        for metric in row["metrics"]:
            score = "–" if metric["score"] is None else format_score(metric["score"])
            yield f"     {metric['name']} {score} (threshold {format_score(metric['threshold'])})"
