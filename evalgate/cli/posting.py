"""The part of the command line that posts to a pull or merge request."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.parametertypes import FILE
from evalgate.cli.project import works_in_project

if TYPE_CHECKING:
    from evalgate.redaction.hiding import Hiding
    from evalgate.telling.pullrequest import Posting

_Command = TypeVar("_Command", bound=Callable[..., object])

_HOW = (
    click.option("--check", is_flag=True, help="Create a check run with the failing cases as annotations."),
    click.option(
        "--name",
        default="evalgate",
        show_default=True,
        metavar="GATE",
        help="Name of the gate: each has a comment and a check run of its own.",
    ),
    click.option(
        "--section", default="", metavar="LEG", help="Leg of a matrix: its own section of the gate's comment."
    ),
    click.option(
        "--token-env",
        default="",
        metavar="NAME",
        help="Variable that holds the token.  [default: GITHUB_TOKEN; "
        "in GitLab CI EVALGATE_GITLAB_TOKEN, else GITLAB_TOKEN]",
    ),
    click.option(
        "--comment-author",
        default="github-actions[bot]",
        show_default=True,
        metavar="LOGIN",
        help="Whom the token speaks for, where that is not the workflow. GitLab says it itself.",
    ),
)
_COMMENT = click.option(
    "--comment", is_flag=True, help="Post the report as a comment under the pull or merge request."
)


def posting_options(command: _Command) -> _Command:
    """The options of a command that makes a record: what of it is posted, and how."""
    return _COMMENT(_how_to_post(command))


def _how_to_post(command: _Command) -> _Command:
    for option in reversed(_HOW):
        command = option(command)
    return command


def posting_in(said: dict[str, Any]) -> "Posting | None":
    """What is to be posted, None when nothing is. Takes its options out of what the command line said."""
    comment, author = said.pop("comment"), said.pop("comment_author")
    wish = {name: said.pop(name) for name in ("check", "name", "section", "token_env")}
    if not comment and not wish["check"]:
        return None
    from evalgate.telling.pullrequest import Posting

    return Posting(comment=comment, author=author, **wish)


@contextmanager
def endings_posted(posting: "Posting | None", hiding: "Hiding") -> Iterator[None]:
    """A block that ends without a verdict says so at the pull request, too.

    Not when somebody stopped it: then a newer run mostly follows.
    """
    from evalgate.errors import Interrupted

    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        if posting is not None:
            from evalgate.noverdict import post_no_verdict

            with suppress(Exception):  # what went wrong first is what has to be told
                post_no_verdict(
                    error,
                    posting,
                    hiding.text,
                    environ=os.environ,
                    stdout=sys.stdout,
                    stderr=sys.stderr,
                )
        raise


@click.command()
@click.argument("results", type=FILE, default="evalgate-report/results.json")
@_how_to_post
@works_in_project
def comment(results: str, **said: Any) -> int:
    """Post a results.json to the pull or merge request, as from a second workflow.

    The record may come from a fork: nothing in it is trusted. Ends with 0 whether or not it could be posted.
    """
    from evalgate.commands.comment import post_record
    from evalgate.posts import show_post

    posting = posting_in({**said, "comment": True})
    if posting is not None:
        for told in post_record(results, posting, folder=Path(), environ=os.environ):
            show_post(told, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr)
    return 0
