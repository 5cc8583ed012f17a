"""Commands `evalgate results …`: list, show and compare the results of earlier runs."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalgate.cli.help_pages import FullLineGroup
from evalgate.cli.options import comparison_page, in_project_directory, thresholds_file
from evalgate.cli.redacted_output import print_json, print_report

if TYPE_CHECKING:
    from evalgate.reporting.results_history import KeptResult


@click.group(cls=FullLineGroup)
def results() -> None:
    """List, show and compare the results of earlier runs.

    `evalgate run` keeps the newest 20 in .evalgate/history, or as many as `--keep-results` says. If the
    variable CI is set, it keeps none by default.
    """


@results.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@in_project_directory
def list_(as_json: bool, working_directory: str) -> int:
    """List the kept results with their metrics, newest first."""
    from evalgate.reporting.results_history import list_results

    rows = [_summarize(each) for each in list_results(Path(working_directory))]
    if as_json:
        print_json(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    else:
        print_report("\n".join(_format_list(rows)) + "\n")
    return 0


@results.command()
@click.argument("which", metavar="[RESULT]", default="1")
@in_project_directory
def show(which: str, working_directory: str) -> int:
    """Print the report of a kept result.

    RESULT is an id from `evalgate results list`, the beginning of one, or a number: 1 is the newest.
    """
    from evalgate.reporting.results_history import find_result, read_result
    from evalgate.reporting.terminal import TerminalReport

    print_report(TerminalReport().render(read_result(find_result(Path(working_directory), which))))
    return 0


@results.command()
@click.argument("before", metavar="[A]", required=False)
@click.argument("after", metavar="[B]", required=False)
@comparison_page
@thresholds_file
@in_project_directory
def diff(
    before: str | None, after: str | None, page: str | None, thresholds: str | None, working_directory: str
) -> int:
    """Compare two kept results, by default the newest two.

    B is compared with A, so name the older one first. Each is an id from `evalgate results list`, the
    beginning of an id, or a number: 1 is the newest. If you name one, the other is the newest of the rest.
    Nothing is run. Ends with the exit code of the comparison.
    """
    from evalgate.cli.compare import compare_results, write_comparison_page
    from evalgate.core.errors import InvalidInputError
    from evalgate.reporting.results_history import find_pair, read_result
    from evalgate.reporting.terminal import TerminalReport

    folder = Path(working_directory)
    pair = find_pair(folder, before, after)
    paths = [str(each.path.relative_to(folder)) for each in pair]
    try:
        record = compare_results(*paths, thresholds_file=thresholds, folder=folder)
    except InvalidInputError:
        for each in pair:
            read_result(each)  # its error says how to go on
        raise
    if page is not None:
        write_comparison_page(record, paths[0], page, folder=folder)
    print_report(TerminalReport().render(record))
    return record.verdict.exit_code


def _summarize(kept: "KeptResult") -> dict[str, Any]:
    """Return the facts about a kept result that `results list` shows, as JSON values.

    If the result cannot be read, return only its id and the error.
    """
    from evalgate.core.errors import InvalidInputError
    from evalgate.reporting.results_history import read_result

    try:
        record = read_result(kept)
    except InvalidInputError as error:
        return {"id": kept.result_id, "error": str(error)}
    totals = record.totals
    return {
        "id": kept.result_id,
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
    """Yield a line for each result, followed by a line for each of its metrics.

    `rows` are the dicts that `_summarize` returns. If there are none, yield one sentence that says so.
    """
    from evalgate.core.sanitize import to_one_line
    from evalgate.core.score_ranges import get_score_range

    if not rows:
        yield "No results are kept yet. `evalgate run` keeps them."
    for number, row in enumerate(rows, 1):
        if "error" in row:
            yield f"{number:>3}  {row['id']}  {to_one_line(row['error'], 500)}"
            continue
        counts = f"{row['passed']} of {row['cases']} passed"
        yield f"{number:>3}  {row['id']}  {row['verdict']:<12}  {counts}  {to_one_line(row['agent'], 500)}"
        for metric in row["metrics"]:
            known = get_score_range(metric["name"].partition(" ")[0])
            score, threshold = known.format_pair(metric["score"], metric["threshold"])
            name = to_one_line(metric["name"], 500)
            yield f"     {name} {score} (threshold {threshold})"
