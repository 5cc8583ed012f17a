"""A record as a post to the pull or merge request, and what the log says of it."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from evalgate.hostile import md_text
from evalgate.model import Record
from evalgate.reporters.comment import Comment
from evalgate.telling.github import add_summary, command, in_github_actions

if TYPE_CHECKING:
    from evalgate.telling.pullrequest import Posting, Told


def posted(
    record: Record,
    posting: "Posting",
    hide: Callable[[str], str],
    environ: Mapping[str, str],
    folder: str = "",
    *,
    has_page: bool = False,
) -> Iterator["Told"]:
    """Post what `posting` asks for; gives what became of it.

    `folder` as in `tell_pull_request`; `has_page`: the page was written beside the record.
    """
    from evalgate.telling.reviewers import tell_reviewers

    def render(limit: int) -> str:
        return hide(Comment(limit=limit, has_page=has_page).render(record))

    return tell_reviewers(record, posting, render, environ=environ, folder=folder)


def show_post(told: "Told", *, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO) -> None:
    """Say what became of a post: in the log, and where it was not posted, in the step's summary too."""
    if told.level == "info" or not in_github_actions(environ):
        stderr.write(f"{told.sentence}\n")
        return
    stdout.write(command(told.level, told.sentence, title="evalgate"))
    stdout.flush()
    add_summary(f"> {md_text(told.sentence)}", environ=environ, stream=stdout)
