"""Help pages of commands: options in sections, and the list of commands."""

from collections.abc import Iterable, Iterator, Mapping

import click

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "What to run": (
        "eval_sets",
        "vary",
        "thresholds",
        "format_name",
        "runs",
        "confirm",
        "yes",
        "initial_session",
        "app_name",
        "user_id",
        "working_directory",
    ),
    "Selection of cases": ("tags", "keyword", "failed", "sample", "seed", "affected", "base", "watch"),
    "Agent": (
        "agent",
        "workers",
        "executor",
        "ray_address",
        "concurrency",
        "timeout",
        "setup",
        "python",
        "env",
        "env_file",
        "live_tools",
    ),
    "Judge and simulated user": ("judge", "judge_cache", "simulated_user"),
    "Verdict and baseline": (
        "baseline",
        "max_regression",
        "report_only",
        "control",
        "policy",
        "adk_version",
    ),
    "Long runs": ("resume", "shard"),
    "Reporting": (
        "out",
        "html",
        "details",
        "keep_results",
        "reports",
        "trace",
        "mask",
        "comment",
        "check",
        "name",
        "section",
        "token_env",
        "comment_author",
        "otlp",
        "webhook",
        "webhook_format",
    ),
}
"""Parameter names of `run`, `merge` and `matrix` by the heading of their section, in the page's order."""
_OTHER = "Options"
"""Heading of the options that belong to no section."""


def group_by_section(
    parameters: Iterable[click.Parameter],
) -> Iterator[tuple[str, list[click.Option]]]:
    """Yield (heading, options) for each section with options; options without a section come last."""
    options = {each.name: each for each in parameters if isinstance(each, click.Option)}
    for heading, names in _SECTIONS.items():
        if members := [options.pop(name) for name in names if name in options]:
            yield heading, members
    if options:
        yield _OTHER, [*options.values()]


class SectionedCommand(click.Command):
    """A command with many options, which `--help` lists in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the help page, section by section."""
        for heading, members in group_by_section(self.get_params(ctx)):
            rows = [row for each in members if (row := each.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(rows)


class FullLineGroup(click.Group):
    """Group of commands. Its help shows the first help line of each command in full; click would cut it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with the first line of its help, wrapped to the width of the terminal."""
        del ctx
        rows = [
            (name, (command.help or "").partition("\n")[0])
            for name, command in sorted(self.commands.items())
            if not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
