"""The command `merge`: one record and one verdict from the results of all shards."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from evalgate.cli.help_pages import SectionedCommand
from evalgate.cli.options import (
    add_case_filters,
    add_plan_options,
    build_overrides,
    in_project_directory,
    pop_case_filters,
    reports_folder,
)
from evalgate.cli.project_folder import FILE
from evalgate.cli.publish_options import (
    add_destination_options,
    add_posting_options,
    html_page,
    list_masks,
    owner_reports,
    pop_post_options,
    pop_publish_options,
    post_on_failure,
)
from evalgate.cli.repro_options import build_repro_options


@click.command(cls=SectionedCommand)
@click.argument("shards", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--eval-sets",
    "eval_sets",
    type=FILE,
    multiple=True,
    metavar="PATTERN",
    help="Eval sets, as for the shards.",
)
@add_plan_options
@add_case_filters
@add_posting_options
@add_destination_options
@html_page
@owner_reports
@reports_folder
@in_project_directory
def merge(
    shards: tuple[str, ...],
    eval_sets: tuple[str, ...],
    out: str,
    working_directory: str,
    thresholds: str | None,
    mask: tuple[str, ...],
    **options: Any,
) -> int:
    """Merge the results of all shards and print the verdict.

    RESULTS are the `results.json` of the shards: files, globs, or folders that contain them at any depth.
    Give all other options as for the shards.
    """
    from dataclasses import replace

    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.plan import build_plan
    from evalgate.runner.publish import Publisher
    from evalgate.runner.shard_files import find_shards, read_shard
    from evalgate.runner.shard_merge import merge_shards
    from evalgate.system.gc import pause_gc

    post_options = pop_post_options(options)
    folder, redactor = Path(working_directory), LiveRedactor.from_environment(os.environ)
    with pause_gc():  # everything that is read here is needed to the end
        with post_on_failure(post_options, redactor):
            redactor.learn_masks(mask)  # before anything that may fail
            filters, publish_options = pop_case_filters(options), pop_publish_options(options, post_options)
            overrides = build_overrides(eval_sets, {**options, "mask": mask}, filters)
            files = find_shards(shards, folder=folder)
            redactor.learn_masks(list_masks(overrides, publish_options.destinations))
            plan = build_plan(overrides, thresholds_file=thresholds, folder=folder, environ=os.environ)
            redactor.protect_notices(plan.notices)
            streams = (sys.stdout, sys.stderr)
            publisher = Publisher(plan.workspace, out, os.environ, *streams, redactor, publish_options)
            records = [(path, read_shard(plan.workspace.folder / path, path)) for path in files]
            record = merge_shards(plan, records)
            repro_options = build_repro_options(working_directory, thresholds, out, overrides, os.environ)
            record = replace(record, options=repro_options)
        publisher.clear_previous_reports()
        return publisher.publish(record)
