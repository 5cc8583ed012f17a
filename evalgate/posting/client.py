"""GitHub as posting sees it: a few requests.

PyGithub is the optional extra `github`; it takes half a second to load, so only posting loads it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalgate.posting.connection import Account, connect
from evalgate.posting.events import HeadCommit
from evalgate.posting.outcome import Gone, Patience
from evalgate.posting.sections import LONGEST_COMMENT
from evalgate.posting.thread import Comment

if TYPE_CHECKING:
    from github.IssueComment import IssueComment
    from github.PullRequestPart import PullRequestPart


class GitHub:
    """One repository. Every method raises Trouble, and nothing else, when GitHub does not do as asked."""

    def __init__(self, account: Account, patience: Patience) -> None:
        connection = connect(account, patience)
        self._repository, self._sorted_out = connection.repository, connection.sorted_out

    def comments(self, pull: int) -> list[Comment]:
        """All comments of a pull request, oldest first."""
        with self._sorted_out():
            return [_read(each) for each in self._repository.get_issue(pull).get_comments()]

    def create_comment(self, pull: int, body: str) -> Comment:
        """A new comment."""
        with self._sorted_out():
            return _read(self._repository.get_issue(pull).create_comment(body))

    def edit_comment(self, pull: int, number: int, body: str) -> Comment:
        """Another body for a comment."""
        with self._sorted_out():
            comment = self._repository.get_issue(pull).get_comment(number)
            comment.edit(body)
            return _read(comment)

    def delete_comment(self, pull: int, number: int) -> None:
        """Remove a comment; one that is gone already is no trouble."""
        try:
            with self._sorted_out():
                self._repository.get_issue(pull).get_comment(number).delete()
        except Gone:
            return

    def open_pulls_of(self, head: HeadCommit) -> list[int]:
        """The numbers of the open pull requests whose newest commit this is."""
        with self._sorted_out():
            found = self._repository.get_commit(head.sha).get_pulls()
            return [each.number for each in found if each.state == "open" and _is_at(each.head, head)]

    def create_check(
        self, name: str, head_sha: str, external_id: str, output: dict[str, Any], conclusion: str
    ) -> tuple[int, str]:
        """Create a check run and return its id and its page; `conclusion` "": it is not over."""
        with self._sorted_out():
            run = self._repository.create_check_run(
                name, head_sha, external_id=external_id, output=output, **_state(conclusion)
            )
            return run.id, run.html_url

    def find_check(self, name: str, head_sha: str, external_id: str) -> tuple[int, str] | None:
        """Return the id and the page of the check run with our `external_id`; None if there is none."""
        with self._sorted_out():
            # By default GitHub lists only the newest check run of each name, which may be another job's.
            found = self._repository.get_commit(head_sha).get_check_runs(check_name=name, filter="all")
            return next(((run.id, run.html_url) for run in found if run.external_id == external_id), None)

    def count_annotations(self, number: int) -> int:
        """Return how many annotations a check run has."""
        with self._sorted_out():
            return int(self._repository.get_check_run(number).output.annotations_count)

    def extend_check(self, number: int, output: dict[str, Any], conclusion: str) -> None:
        """More annotations for a check run; `conclusion` "": it is not over yet."""
        with self._sorted_out():
            self._repository.get_check_run(number).edit(output=output, **_state(conclusion))


@dataclass(frozen=True)
class PullRequestThread:
    """The comments of one pull request; see `evalgate.posting.thread.Thread`."""

    github: GitHub
    pull: int
    login: str
    """Whom the token speaks for: GitHub tells a workflow's token nothing of itself."""

    host = "GitHub"
    longest = LONGEST_COMMENT

    def author(self) -> str:
        """See `Thread`."""
        return self.login

    def comments(self) -> list[Comment]:
        """See `Thread`."""
        return self.github.comments(self.pull)

    def create_comment(self, body: str) -> Comment:
        """See `Thread`."""
        return self.github.create_comment(self.pull, body)

    def edit_comment(self, number: int, body: str) -> Comment:
        """See `Thread`."""
        return self.github.edit_comment(self.pull, number, body)

    def delete_comment(self, number: int) -> None:
        """See `Thread`."""
        self.github.delete_comment(self.pull, number)


def _state(conclusion: str) -> dict[str, Any]:
    return {"status": "completed", "conclusion": conclusion} if conclusion else {"status": "in_progress"}


def _is_at(there: "PullRequestPart", head: HeadCommit) -> bool:
    repository = there.repo.full_name if there.repo else ""  # a fork can be deleted
    return (
        there.sha == head.sha
        and head.branch in {"", there.ref}
        and (not head.repository or head.repository == repository)
    )


def _read(comment: "IssueComment") -> Comment:
    user = comment.user
    return Comment(int(comment.id), user.login if user else "", comment.body or "", str(comment.html_url))
