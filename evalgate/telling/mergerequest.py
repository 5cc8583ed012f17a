"""The report at a merge request of GitLab: the sticky note. Never changes the verdict."""

from collections.abc import Callable, Iterator, Mapping

from evalgate.posting import Outcome, Patience, merge_request_of, post_note
from evalgate.telling.pullrequest import ROOM, Posting, Told, section_of, told

_TOKEN_ENVS = ("EVALGATE_GITLAB_TOKEN", "GITLAB_TOKEN")
_RUN = ("CI_PIPELINE_ID", "CI_JOB_ID")
"""A job that is tried again belongs to the same pipeline and gets a number of its own."""
_NO_CHECKS = "GitLab has none: it shows the Code Quality report instead"


def in_gitlab_ci(environ: Mapping[str, str]) -> bool:
    """Whether GitLab's runner started us."""
    return environ.get("GITLAB_CI") == "true"


def tell_merge_request(
    posting: Posting,
    render: Callable[[int], str],
    *,
    environ: Mapping[str, str],
    patience: Patience | None = None,
) -> Iterator[Told]:
    """Post what `posting` asks for; gives what became of it. `render` as in `tell_pull_request`."""
    if posting.comment:
        names = (posting.token_env,) if posting.token_env else _TOKEN_ENVS
        token = next(filter(None, (environ.get(name, "") for name in names)), "")
        outcome = post_note(
            merge_request_of(environ, token),
            posting.name,
            section_of(posting, render(ROOM), environ, _RUN),
            shared=bool(posting.section),
            shorter=render,
            patience=patience,
        )
        yield told("note", outcome)
    if posting.check:
        yield told("check run", Outcome("skipped", _NO_CHECKS))
