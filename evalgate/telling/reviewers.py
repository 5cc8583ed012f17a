"""The report where the change is reviewed, whichever service that is. Never changes the verdict."""

from collections.abc import Callable, Iterator, Mapping

from evalgate.hostile import md_text
from evalgate.model import Record
from evalgate.posting import Patience
from evalgate.telling.mergerequest import in_gitlab_ci, tell_merge_request
from evalgate.telling.pullrequest import ONLY_GATE, Posting, Told, tell_pull_request


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
    title = _title(posting)

    def titled(limit: int) -> str:
        return f"{title}{render(limit - len(title))}"

    if in_gitlab_ci(environ):
        return tell_merge_request(posting, titled, environ=environ, patience=patience)
    return tell_pull_request(record, posting, titled, environ=environ, folder=folder, patience=patience)


def _title(posting: Posting) -> str:
    """A heading that tells sections, and gates of other names, apart; "" where there is nothing to tell."""
    name = posting.name if posting.name != ONLY_GATE else ""
    title = " / ".join(filter(None, (name, posting.section)))
    return f"## {md_text(title, 200)}\n\n" if title else ""
