"""Options that select cases of the eval sets, and their conversion."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.options import require_nonempty
from evalgate.cli.project_folder import TextType

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from evalgate.config.cli_overrides import SelectionOptions

_Command = TypeVar("_Command", bound=Callable[..., object])


class TagParamType(TextType):
    """Tag of cases, or `!` and a tag."""

    name = "tag"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """List the tags of the last results that begin like the word."""
        from evalgate.cli.options import DEFAULT_RESULTS
        from evalgate.cli.shell_completion import complete_tag

        del ctx, param
        return complete_tag(incomplete, DEFAULT_RESULTS)


_FILTERS = (
    click.option(
        "--tag",
        "tags",
        multiple=True,
        type=TagParamType(),
        metavar="TAG",
        help="Run the cases with this tag; with `!TAG` those without it. Repeatable: one of the tags is "
        "enough.",
    ),
    click.option(
        "-k",
        "keyword",
        metavar="EXPRESSION",
        callback=require_nonempty,
        help="Run the cases that match the expression, as of pytest: parts of ids, eval sets and tags, with "
        "`and`, `or`, `not` and parentheses.",
    ),
)

_CHOICES = (
    click.option(
        "--failed", is_flag=True, help="Run the cases that did not pass in the last results of --out."
    ),
    click.option(
        "--sample",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run N cases that are drawn from all eval sets and tags. Such a run has no verdict.",
    ),
    click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the sample.  [default: 0]"),
)


def add_case_filters(command: _Command) -> _Command:
    """Add `--tag` and `-k` to a command."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def add_selection_options(command: _Command) -> _Command:
    """Add all options that select cases to a command."""
    for option in reversed(_CHOICES):
        command = option(command)
    return add_case_filters(command)


def pop_case_filters(options: dict[str, Any]) -> "SelectionOptions":
    """Remove `--tag` and `-k` from `options` and return them."""
    from evalgate.config.cli_overrides import SelectionOptions

    return SelectionOptions(tags=options.pop("tags"), keyword=options.pop("keyword"))


def pop_selection_options(
    options: dict[str, Any], out: str, *, is_shard: bool, is_resumed: bool
) -> "SelectionOptions":
    """Remove the options that select cases from `options` and return them.

    `out` is the folder of the reports.

    Raises:
        UsageError: options contradict each other.
    """
    from dataclasses import replace

    failed, sample, seed = options.pop("failed"), options.pop("sample"), options.pop("seed")
    if failed and is_resumed:
        raise click.UsageError("--failed cannot resume: --failed alone runs what did not pass yet.")
    if is_shard and (failed or sample is not None):
        raise click.UsageError(f"{'--failed' if failed else '--sample'} cannot be combined with --shard.")
    if seed is not None and sample is None:
        raise click.UsageError("--seed needs --sample.")
    return replace(
        pop_case_filters(options),
        failed=f"{out}/results.json" if failed else None,
        sample=sample,
        seed=seed or 0,
    )
