"""`evalgate init` on the command line."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalgate.cli.options import not_empty, working_directory
from evalgate.cli.parametertypes import AGENT
from evalgate.cli.saying import say

if TYPE_CHECKING:
    from evalgate.commands.candidates import Candidates


@click.command()
@click.option(
    "--agent",
    type=AGENT,
    metavar="KIND:WHAT",
    callback=not_empty,
    help="Your agent, as python:agent.py:answer. Asked for on a terminal; a sample agent is written without.",
)
@working_directory
def init(agent: str | None, working_directory: str) -> int:
    """Write a thresholds file and a workflow, and without an agent a sample that runs as it is.

    Eval sets that are there already are named in the thresholds file, and .gitignore gets what runs leave
    behind. Files that exist are left as they are.
    """
    from evalgate.commands.candidates import find_candidates
    from evalgate.commands.init import init as write_scaffold
    from evalgate.config import find_thresholds_file
    from evalgate.plan import workspace_at

    workspace = workspace_at(Path(working_directory))
    found = find_candidates(workspace.folder)
    is_asked = agent is None and find_thresholds_file(workspace.folder) is None
    if is_asked and sys.stdin.isatty() and sys.stdout.isatty():
        agent = _ask(found)
    done = write_scaffold(workspace, agent, found)
    for written in done.files:
        click.echo(f"{written.done:<8} {written.path}")
    click.echo()
    for sentence in done.next_steps:
        say(sentence)
    return 0


def _ask(found: "Candidates") -> str | None:
    """Ask for the agent until the answer is one; None for the sample."""
    from evalgate.commands.init import check_agent
    from evalgate.errors import InvalidInput
    from evalgate.hostile import log_line

    click.echo("Which agent is gated? KIND:WHAT, as python:agent.py:answer, adk:my_agent or http:http://…")
    for number, each in enumerate(found.agents, 1):
        click.echo(f"  {number}  {log_line(each)}")
    while True:
        answer = click.prompt("Agent (Enter: a sample agent)", default="", show_default=False).strip()
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(found.agents):
            return found.agents[int(answer) - 1]
        try:
            check_agent(answer)
        except InvalidInput as error:
            say(str(error))
        else:
            return answer
