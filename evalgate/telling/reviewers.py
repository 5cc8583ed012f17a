"""The report where the change is reviewed, whichever service that is. Never changes the verdict."""

from collections.abc import Callable, Iterator, Mapping

from evalgate.model import Record
from evalgate.posting import Patience
from evalgate.telling.mergerequest import in_gitlab_ci, tell_merge_request
from evalgate.telling.pullrequest import Posting, Told, tell_pull_request


def tell_reviewers(
    record: Record,
    posting: Posting,
    render: Callable[[int], str],
    *,
    environ: Mapping[str, str],
    folder: str = "",
    patience: Patience | None = None,
) -> Iterator[Told]:
    """Post what `posting` asks for to the pull or merge request; gives what became of it.

    The arguments are those of `tell_pull_request`.
    """
    if in_gitlab_ci(environ):
        return tell_merge_request(posting, render, environ=environ, patience=patience)
    return tell_pull_request(record, posting, render, environ=environ, folder=folder, patience=patience)
