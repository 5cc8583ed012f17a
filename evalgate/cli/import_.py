"""Command `evalgate import`: its options and arguments. The work is done in `import_traces`."""

import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from evalgate.cli.options import in_project_directory, new_file_format, require_nonempty
from evalgate.cli.project_folder import FILE
from evalgate.cli.redacted_output import print_sentence
from evalgate.core.exit_codes import ExitCode

_MOST_NAMED = 50
"""Maximum number of new case ids to print."""


class _MomentParamType(click.ParamType[datetime]):
    """Parameter type of a time: ISO 8601, or a time span before now such as `7d`."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse the value of an option; fail with a usage error if it is neither a time nor a time span."""
        if isinstance(value, datetime):
            return value
        from evalgate.cli.import_traces import parse_moment

        try:
            return parse_moment(str(value))
        except (ValueError, OverflowError):
            message = "is neither a moment (2026-11-23T12:00) nor a time span (30m, 12h, 7d, 2w)"
            self.fail(f"{value!r} {message}", param, ctx)


@click.command("import")
@click.argument("source", metavar="SOURCE", callback=require_nonempty)
@click.option(
    "--out",
    "-o",
    type=FILE,
    metavar="OUT",
    default="evals/production.evalset.json",
    show_default=True,
    help="Eval set to add the cases to; made if it does not exist.",
)
@new_file_format
@click.option("--project", metavar="NAME", default="", help="Project of the API; for Jaeger the service.")
@click.option(
    "--endpoint", metavar="URL", help="Address of the API.  [default: that of the tool's own variable]"
)
@click.option("--since", type=_MomentParamType(), metavar="WHEN", help="Begin: 7d, 12h or 2026-11-23T12:00.")
@click.option("--until", type=_MomentParamType(), metavar="WHEN", help="End, as --since.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Most traces to fetch from an API: the newest.",
)
@click.option(
    "--filter",
    "condition",
    metavar="TEXT",
    default="",
    help="Condition in the API's own words: a tag, an expression, SQL.",
)
@click.option(
    "--only",
    type=click.Choice(["errors", "disliked", "liked"]),
    multiple=True,
    help="Only conversations that failed, or that have such feedback. Repeatable.",
)
@click.option(
    "--keep-per-path",
    type=click.IntRange(1),
    metavar="N",
    help="Most conversations that call the same tools in the same order: the newest.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Draw N conversations, of each tool path, length, outcome and feedback in turn.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the sample.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of every new case. Repeatable.")
@click.option(
    "--mocks", is_flag=True, help="Keep the recorded results of tools: they replace the tools in runs."
)
@click.option(
    "--keep-personal-data",
    is_flag=True,
    help="Do not replace e-mail addresses, phone numbers and card numbers.",
)
@in_project_directory
def import_(source: str, out: str, to: str | None, **given: Any) -> int:
    """Make cases from recorded traces of production.

    SOURCE is a file (OTLP, Jaeger, Zipkin, or an export of Phoenix, Langfuse, LangSmith or Logfire), or the
    name of an API: jaeger, langfuse, langsmith, logfire or phoenix. The new cases run and are reported, but
    cannot close the gate until `evalgate review` accepts them.
    """
    from evalgate.cli.import_traces import ImportOptions, import_traces
    from evalgate.integrations.trace_sources.api_client import TraceQuery
    from evalgate.redaction.live_redactor import LiveRedactor

    options = ImportOptions(
        source,
        out,
        to or "adk",
        TraceQuery(given["project"], given["since"], given["until"], given["limit"], given["condition"]),
        given["endpoint"],
        given["only"],
        given["keep_per_path"],
        given["sample"],
        given["seed"],
        given["tags"],
        given["mocks"],
        given["keep_personal_data"],
    )
    redactor = LiveRedactor.from_environment(os.environ)
    with redactor.redact_errors():
        result = import_traces(options, Path(given["working_directory"]), os.environ, redactor)
    for sentence in result.problems:
        print_sentence(sentence, err=True, hide=redactor.redact_text)
    more = len(result.added) - _MOST_NAMED
    rest = [f"… and {more:,} more"] if more > 0 else []
    for sentence in (*result.counts, *result.added[:_MOST_NAMED], *rest):
        print_sentence(sentence, hide=redactor.redact_text)
    if result.added:
        print_sentence(f"These cases do not gate yet. Next: evalgate review {shlex.quote(out)}")
    return ExitCode.OPEN if result.is_whole else ExitCode.NO_VERDICT
