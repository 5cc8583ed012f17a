"""`evalgate generate` on the command line."""

import os
from pathlib import Path

import click

from evalgate.cli.options import not_empty, project_directory, thresholds_file
from evalgate.cli.parametertypes import AGENT, FILE, WRITABLE_FORMATS, FormatType
from evalgate.cli.saying import say


@click.command()
@click.argument("stories", type=FILE, required=False, metavar="[STORIES]")
@click.option(
    "--from",
    "recorded",
    type=FILE,
    metavar="FILE",
    callback=not_empty,
    help="Make cases from what was recorded (results.json, conversations, traces) or written elsewhere (chat "
    "messages, questions, DeepEval and promptfoo files). No model is asked.",
)
@click.option(
    "--to",
    default="adk",
    show_default=True,
    type=FormatType(WRITABLE_FORMATS),
    metavar="FORMAT",
    help="adk, adk-rs, trpc or orchestrate.",
)
@click.option(
    "--out",
    "-o",
    type=FILE,
    metavar="OUT",
    callback=not_empty,
    help="File to write; never overwritten.  [default: evals/NAME.evalset.json, with the name of the file "
    "that is read]",
)
@click.option("--agent", type=AGENT, metavar="KIND:WHAT", help="The agent, as python:agent.py:answer.")
@click.option(
    "--simulated-user", metavar="PROVIDER/MODEL", callback=not_empty, help="Model that plays the user."
)
@thresholds_file
@project_directory
def generate(
    stories: str | None,
    recorded: str | None,
    to: str,
    out: str | None,
    agent: str | None,
    simulated_user: str | None,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Make cases for a person to review.

    STORIES is a CSV file with the columns story and agent, or a YAML list. A model plays each story with the
    agent, and what the agent did is written down as a case.
    """
    from evalgate.commands.generate import Wish, name_out
    from evalgate.commands.generate import generate as generated
    from evalgate.overrides import Overrides
    from evalgate.redaction import Redactor
    from evalgate.redaction.hiding import Hiding

    out = out or name_out(recorded or stories)
    wish, said = (
        Wish(to, out, stories, recorded, thresholds),
        Overrides(agent=agent, simulated_user=simulated_user),
    )
    hiding = Hiding(Redactor.of(os.environ, ()))
    with hiding.in_errors():
        result = generated(wish, said, Path(working_directory), os.environ, hiding)
    for sentence in result.missing:
        say(sentence, err=True, hide=hiding.text)
    for sentence in result.cases:
        say(sentence, hide=hiding.text)
    say(f"{out}: written in the format {to}. {result.review}")
    return 0 if result.is_whole else 3
