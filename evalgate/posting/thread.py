"""What a sticky comment needs of the place that it stands in, whichever service that is."""

from typing import Protocol

from evalgate.frozen import frozen


@frozen
class Comment:
    """A comment as it was when it was read."""

    number: int
    """Grows with time."""
    author: str
    body: str
    url: str


class Thread(Protocol):
    """The comments of one pull request. Every method raises Trouble, and nothing else."""

    host: str
    """How people call the service."""
    longest: int
    """Characters of a comment's body that it takes."""

    def author(self) -> str:
        """The account that the token speaks for, as far as that is known before something is posted."""
        ...

    def comments(self) -> list[Comment]:
        """All of them, in any order."""
        ...

    def create_comment(self, body: str) -> Comment:
        """A new comment."""
        ...

    def edit_comment(self, number: int, body: str) -> Comment:
        """Another body for a comment."""
        ...

    def delete_comment(self, number: int) -> None:
        """Remove a comment; one that is gone already is no trouble."""
        ...
