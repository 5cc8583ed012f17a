"""Many jobs that post at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from evalgate.ci.comment_sections import CommentSection, read_sections, render_body
from evalgate.ci.posting import PostResult
from tests.ci.conftest import measure_timeouts, post
from tests.github.faults import Fault
from tests.github.server import FakeGitHub
from tests.github.world import Grant


def _post_all(github: FakeGitHub, jobs: int) -> list[PostResult]:
    with FakeGitHub().running() as another:
        timeouts = measure_timeouts(jobs, lambda: post(another))

    def job(number: int) -> PostResult:
        return post(github, f"text of {number}", key=f"leg {number}", shared=True, timeouts=timeouts)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(job, range(jobs)))


def test_a_section_that_another_job_overwrote_is_written_again(github: FakeGitHub) -> None:
    comment = github.world.add_comment(render_body("main", [CommentSection("a", "of a", 1, 1)]))

    def overwrite() -> None:
        github.world.edit_comment(comment, render_body("main", [CommentSection("c", "of c", 1, 1)]))

    # the first reading goes well; at the second, a job that had read the comment before us has written it
    github.faults += [Fault("GET"), Fault("GET", then=overwrite)]
    assert post(github, "of b", key="b", shared=True).kind == "updated"
    (body,) = github.world.comment_bodies()
    assert {key: section.text for key, section in read_sections(body).items()} == {
        "a": "of a",
        "b": "of b",
        "c": "of c",
    }


def test_of_two_first_comments_the_older_stays(github: FakeGitHub) -> None:
    theirs = render_body("main", [CommentSection("a", "of a", 1, 1)])
    github.faults.append(Fault("POST", then=lambda: github.world.add_comment(theirs)))
    assert post(github, "of b", key="b", shared=True).url.endswith("-1001")
    (body,) = github.world.comment_bodies()
    assert list(read_sections(body)) == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("lag_s", [0.0, 0.5])
def test_twenty_jobs_end_in_one_comment_with_all_sections(github: FakeGitHub, lag_s: float) -> None:
    github.page_size = 5
    github.world.lag_s = lag_s
    for number in range(12):
        github.world.add_comment(f"chat {number}", Grant(login="mallory", kind="User"))
    outcomes = _post_all(github, 20)
    assert {outcome.kind for outcome in outcomes} <= {"posted", "updated"}
    ours = [body for body in github.world.comment_bodies() if not body.startswith("chat")]
    assert len(ours) == 1
    assert {key: section.text for key, section in read_sections(ours[0]).items()} == {
        f"leg {number}": f"text of {number}" for number in range(20)
    }
    assert len({outcome.url for outcome in outcomes}) == 1
