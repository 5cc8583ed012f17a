"""The time limit of a post, and what its result says about every end."""

import threading

import pytest

from evalgate.ci.posting import PostError, PostResult, PostTimeouts, run_within_limit


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (PostError("a fork's token", kind="skipped"), PostResult("skipped", "a fork's token")),
        (
            ValueError("bad token ghs_secret"),
            PostResult("failed", "an unexpected ValueError ended the post"),
        ),
    ],
)
def test_an_error_of_a_post_is_its_result(
    capsys: pytest.CaptureFixture[str], error: Exception, result: PostResult
) -> None:
    def post() -> PostResult:
        raise error

    assert run_within_limit(PostTimeouts(), "GitHub", post) == result
    assert capsys.readouterr() == ("", "")


def test_a_post_that_takes_too_long_has_failed() -> None:
    end = threading.Event()

    def post() -> PostResult:
        end.wait(60)
        return PostResult("posted")

    result = run_within_limit(PostTimeouts(total_s=0.05), "GitHub", post)
    end.set()
    assert result == PostResult("failed", "GitHub did not answer within 0.1 s")
