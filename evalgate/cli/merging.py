"""The command that puts shards together."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from evalgate.cli.options import html_page, project_directory, reports_folder
from evalgate.cli.parametertypes import FILE
from evalgate.cli.planning import overrides_in, plan_options
from evalgate.cli.posting import endings_posted, posting_in, posting_options
from evalgate.cli.repeating import options_to_repeat


@click.command()
@click.argument("shards", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--eval-sets", "eval_sets", type=FILE, multiple=True, metavar="PATTERN", help="As the shards were given."
)
@plan_options
@posting_options
@html_page
@reports_folder
@project_directory
def merge(
    shards: tuple[str, ...],
    eval_sets: tuple[str, ...],
    html: bool,
    out: str,
    working_directory: str,
    **said: Any,
) -> int:
    """Put the results of all shards together and give the verdict.

    RESULTS are the `results.json` of the shards: files, globs, or folders that hold them at any depth. The
    other options are those that the shards were given.
    """
    from dataclasses import replace

    from evalgate.parts.shardfiles import find_shards, read_shard
    from evalgate.pipeline import merge_shards
    from evalgate.plan import make_plan
    from evalgate.publish import Publisher
    from evalgate.redaction import Redactor
    from evalgate.redaction.hiding import Hiding
    from evalgate.system.collector import collector_paused

    thresholds, folder, posting = said.pop("thresholds"), Path(working_directory), posting_in(said)
    wish, files = overrides_in(eval_sets, said), find_shards(shards, base=folder)
    hiding, streams = Hiding(Redactor.of(os.environ, wish.mask)), (sys.stdout, sys.stderr)
    with collector_paused():  # all that is read here stays to the end
        with endings_posted(posting, hiding), hiding.in_errors():
            plan = make_plan(wish, thresholds=thresholds, folder=folder, environ=os.environ)
            publisher = Publisher(plan.workspace, out, os.environ, *streams, hiding, posting, html)
            records = [(path, read_shard(plan.workspace.folder / path, path)) for path in files]
            record = merge_shards(plan, records, publisher.progress())
            given = options_to_repeat(working_directory, thresholds, out, wish, os.environ)
            record = replace(record, options=given)
        publisher.begin()
        return publisher.publish(record)
