"""The endpoints of the fake GitHub: functions of the world and a request that return status and body."""

import base64
import binascii
import time
from collections.abc import Mapping
from typing import Any

from tests.github.actions import download, list_artifacts, list_runs, rerun
from tests.github.contract import sample
from tests.github.git import Commit
from tests.github.requests import DOCUMENTATION, Answer, Asked, Endpoint, Page, Refused
from tests.github.world import LONGEST_BODY, NAME, OURS, OWNER, Comment, Grant, World

# --- comments -----------------------------------------------------------------------------------------------


def list_comments(world: World, asked: Asked) -> Answer:
    number = _pull(world, asked.values["issue_number"])
    # One moment for the whole list: a comment that is deleted meanwhile is there or not, never without its text.
    at = _get_moment(world)
    there = [each for each in world.comments.values() if each.issue == number]
    found = [(each, body) for each in there if (body := each.body(at)) is not None]
    return 200, Page([_comment(each, body, asked) for each, body in found])


def create_comment(world: World, asked: Asked) -> Answer:
    number = _pull(world, asked.values["issue_number"])
    text = _checked(asked.body["body"])
    return 201, _comment(world.add_comment(text, asked.who, number), text, asked)


def get_comment(world: World, asked: Asked) -> Answer:
    return 200, _comment(*_find(world, asked, _get_moment(world)), asked)


def edit_comment(world: World, asked: Asked) -> Answer:
    comment, _ = _find(world, asked, time.monotonic())
    text = _checked(asked.body["body"])
    world.edit_comment(comment, text)
    return 200, _comment(comment, text, asked)


def delete_comment(world: World, asked: Asked) -> Answer:
    comment, _ = _find(world, asked, time.monotonic())
    world.edit_comment(comment, None)
    return 204, None


def _pull(world: World, number: str) -> int:
    if int(number) not in world.pulls:
        raise Refused(404, "Not Found")
    return int(number)


def _find(world: World, asked: Asked, at: float) -> tuple[Comment, str]:
    """Return a comment with its text at the time `at`. Raise Refused (404) if it did not exist then."""
    comment = world.comments.get(int(asked.values["comment_id"]))
    body = comment.body(at) if comment is not None else None
    if comment is None or body is None:
        raise Refused(404, "Not Found")
    return comment, body


def _get_moment(world: World) -> float:
    """Return the time of the state that readers see now. It is older by `lag_s`."""
    return time.monotonic() - world.lag_s


def _checked(body: str) -> str:
    if not body.strip():
        raise Refused(422, "Validation Failed", errors=[_error("Body cannot be blank")])
    if len(body) > LONGEST_BODY:
        raise Refused(
            422, "Validation Failed", errors=[_error("body is too long (maximum is 65536 characters)")]
        )
    return body


def _error(message: str) -> Mapping[str, str]:
    return {"resource": "IssueComment", "code": "unprocessable", "field": "body", "message": message}


def _comment(comment: Comment, body: str, asked: Asked) -> Mapping[str, Any]:
    base = f"{asked.base}/repos/{OWNER}/{NAME}/issues"
    return sample(
        "issue-comment",
        id=comment.number,
        node_id=f"IC_{comment.number}",
        body=body,
        user=_user(comment.author),
        url=f"{base}/comments/{comment.number}",
        issue_url=f"{base}/{comment.issue}",
        html_url=f"https://github.com/{OWNER}/{NAME}/pull/{comment.issue}#issuecomment-{comment.number}",
    )


def _user(who: Grant) -> Mapping[str, Any]:
    return sample("simple-user", login=who.login, type=who.kind)


# --- pull requests and checks -------------------------------------------------------------------------------


def get_repository(_world: World, asked: Asked) -> Answer:
    url = f"{asked.base}/repos/{OWNER}/{NAME}"
    return 200, sample(
        "full-repository", id=OURS, name=NAME, full_name=f"{OWNER}/{NAME}", url=url, default_branch="main"
    )


def get_pull(world: World, asked: Asked) -> Answer:
    number = _pull(world, asked.values["pull_number"])
    pull = sample("pull-request", number=number)
    return 200, pull | {"head": pull["head"] | {"sha": world.pulls[number]["sha"]}}


def get_permission(world: World, asked: Asked) -> Answer:
    name = world.permissions.get(asked.values["username"], "read")
    return 200, sample("repository-collaborator-permission", permission=name, role_name=name)


def pulls_of_commit(world: World, asked: Asked) -> Answer:
    sha = asked.values["commit_sha"]
    found = [number for number, pull in world.pulls.items() if pull["sha"] == sha]
    pulls = [sample("pull-request-simple", number=number, state="open") for number in found]
    return 200, Page([pull | {"head": _head(world, pull)} for pull in pulls])


def _head(world: World, pull: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `head` of a pull request: a branch of this repository, unless `world.pulls` has another one."""
    known = world.pulls[pull["number"]]
    head: dict[str, Any] = pull["head"]
    repo = head["repo"] | {"full_name": known.get("repository", f"{OWNER}/{NAME}")}
    return head | {"sha": known["sha"], "ref": known.get("branch", "change"), "repo": repo}


def create_check_run(world: World, asked: Asked) -> Answer:
    number = world.next_id()
    world.check_runs[number] = {**asked.body, "annotations": _annotations(asked.body)}
    return 201, _check_run(world, number, asked)


def edit_check_run(world: World, asked: Asked) -> Answer:
    number = int(asked.values["check_run_id"])
    if number not in world.check_runs:
        raise Refused(404, "Not Found")
    run = world.check_runs[number]
    run |= {**asked.body, "annotations": [*run["annotations"], *_annotations(asked.body)]}
    return 200, _check_run(world, number, asked)


def list_check_runs(world: World, asked: Asked) -> Answer:
    ref, name = asked.values["ref"], asked.query.get("check_name")
    found = [
        number
        for number, run in world.check_runs.items()
        if run["head_sha"] == ref and name in {None, run["name"]}
    ]
    return 200, Page([_check_run(world, number, asked) for number in found], total=True, name="check_runs")


def get_check_run(world: World, asked: Asked) -> Answer:
    number = int(asked.values["check_run_id"])
    if number not in world.check_runs:
        raise Refused(404, "Not Found")
    return 200, _check_run(world, number, asked)


def _annotations(body: Mapping[str, Any]) -> list[Any]:
    return list(body.get("output", {}).get("annotations", ()))


def _check_run(world: World, number: int, asked: Asked) -> Mapping[str, Any]:
    run = world.check_runs[number]
    url = f"{asked.base}/repos/{OWNER}/{NAME}/check-runs/{number}"
    made = sample("check-run", id=number, name=run["name"], head_sha=run["head_sha"], url=url)
    shown = {
        "status": run.get("status", "queued"),
        "conclusion": run.get("conclusion"),
        "external_id": run.get("external_id", ""),
        "check_suite": {"id": 5},
        "output": {**made["output"], "annotations_count": len(run["annotations"])},
    }
    return {**made, **shown, "html_url": f"https://github.com/{OWNER}/{NAME}/runs/{number}"}


# --- files and git ------------------------------------------------------------------------------------------


def get_content(world: World, asked: Asked) -> Answer:
    ref = asked.query.get("ref", "main")
    commit = world.git.refs.get(f"refs/heads/{ref.removeprefix('refs/heads/')}", ref)
    path = asked.values["path"]
    if commit not in world.git.commits or path not in world.git.files(commit):
        raise Refused(404, "Not Found")
    sha = world.git.files(commit)[path]
    content = world.git.blobs[sha]
    encoded = base64.encodebytes(content).decode()
    made = sample("content-file", path=path, name=path.rsplit("/", 1)[-1], sha=sha, content=encoded)
    return 200, made | {"size": len(content), "encoding": "base64"}


def put_content(world: World, asked: Asked) -> Answer:
    path, ref = asked.values["path"], f"refs/heads/{asked.body.get('branch', 'main')}"
    if ref not in world.git.refs:
        raise Refused(404, f"Branch {asked.body.get('branch')} not found")
    held = world.git.files(world.git.refs[ref]).get(path)
    if held != asked.body.get("sha"):
        raise Refused(409, f"{path} does not match {asked.body.get('sha')}")
    commit = world.git.write(ref, path, _decoded(asked.body["content"]), asked.body["message"])
    made = sample("file-commit")
    return 200 if held else 201, made | {"commit": {**made["commit"], "sha": commit}}


def get_ref(world: World, asked: Asked) -> Answer:
    ref = f"refs/{asked.values['ref']}"
    if ref not in world.git.refs:
        raise Refused(404, "Not Found")
    return 200, _ref(world, ref)


def create_ref(world: World, asked: Asked) -> Answer:
    ref = asked.body["ref"]
    if ref in world.git.refs:
        raise Refused(422, "Reference already exists")
    world.git.refs[ref] = _commit(world, asked.body["sha"])
    return 201, _ref(world, ref)


def move_ref(world: World, asked: Asked) -> Answer:
    ref, sha = f"refs/{asked.values['ref']}", asked.body["sha"]
    if ref not in world.git.refs:
        raise Refused(422, "Reference does not exist")
    if not asked.body.get("force") and not world.git.descends(_commit(world, sha), world.git.refs[ref]):
        raise Refused(422, "Update is not a fast forward")
    world.git.refs[ref] = _commit(world, sha)
    return 200, _ref(world, ref)


def create_blob(world: World, asked: Asked) -> Answer:
    text = asked.body["content"]
    content = _decoded(text) if asked.body.get("encoding") == "base64" else text.encode()
    return 201, sample("short-blob", sha=world.git.add_blob(content))


def create_tree(world: World, asked: Asked) -> Answer:
    base = asked.body.get("base_tree")
    if base and base not in world.git.trees:
        raise Refused(422, "base_tree is not a valid tree oid")
    entries: dict[str, str | None] = dict(world.git.trees[base]) if base else {}
    for entry in asked.body["tree"]:
        sha = entry["sha"] if "sha" in entry else world.git.add_blob(entry["content"].encode())
        if sha is not None and sha not in world.git.blobs:
            raise Refused(422, f"tree.sha {sha} is not a valid blob")
        entries[entry["path"]] = sha
    kept = {path: sha for path, sha in entries.items() if sha is not None}
    return 201, sample("git-tree", sha=world.git.add_tree(kept))


def create_commit(world: World, asked: Asked) -> Answer:
    if asked.body["tree"] not in world.git.trees:
        raise Refused(422, "Tree SHA does not exist")
    parents = tuple(_commit(world, sha) for sha in asked.body.get("parents", ()))
    sha = world.git.add_commit(Commit(asked.body["tree"], parents, asked.body["message"]))
    return 201, _shown_commit(world, sha)


def get_commit(world: World, asked: Asked) -> Answer:
    if asked.values["commit_sha"] not in world.git.commits:
        raise Refused(404, "Not Found")
    return 200, _shown_commit(world, asked.values["commit_sha"])


def _shown_commit(world: World, sha: str) -> Mapping[str, Any]:
    commit, made = world.git.commits[sha], sample("git-commit", sha=sha)
    parents = [{"sha": parent, "url": DOCUMENTATION, "html_url": DOCUMENTATION} for parent in commit.parents]
    return made | {"message": commit.message, "tree": made["tree"] | {"sha": commit.tree}, "parents": parents}


def _commit(world: World, sha: str) -> str:
    if sha not in world.git.commits:
        raise Refused(422, "Object does not exist")
    return sha


def _ref(world: World, ref: str) -> Mapping[str, Any]:
    made = sample("git-ref", ref=ref)
    return made | {"object": made["object"] | {"type": "commit", "sha": world.git.refs[ref]}}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Refused(422, "content is not valid Base64") from None


_REPO = "/repos/{owner}/{repo}"
ENDPOINTS: Mapping[tuple[str, str], tuple[Endpoint, str]] = {
    # What a token must be allowed to write for it; "": reading is free.
    ("GET", _REPO): (get_repository, ""),
    ("GET", f"{_REPO}/issues/{{issue_number}}/comments"): (list_comments, ""),
    ("POST", f"{_REPO}/issues/{{issue_number}}/comments"): (create_comment, "issues"),
    ("GET", f"{_REPO}/issues/comments/{{comment_id}}"): (get_comment, ""),
    ("PATCH", f"{_REPO}/issues/comments/{{comment_id}}"): (edit_comment, "issues"),
    ("DELETE", f"{_REPO}/issues/comments/{{comment_id}}"): (delete_comment, "issues"),
    ("GET", f"{_REPO}/pulls/{{pull_number}}"): (get_pull, ""),
    ("GET", f"{_REPO}/commits/{{commit_sha}}/pulls"): (pulls_of_commit, ""),
    ("POST", f"{_REPO}/check-runs"): (create_check_run, "checks"),
    ("GET", f"{_REPO}/check-runs/{{check_run_id}}"): (get_check_run, ""),
    ("GET", f"{_REPO}/commits/{{ref}}/check-runs"): (list_check_runs, ""),
    ("PATCH", f"{_REPO}/check-runs/{{check_run_id}}"): (edit_check_run, "checks"),
    ("GET", f"{_REPO}/contents/{{path}}"): (get_content, ""),
    ("PUT", f"{_REPO}/contents/{{path}}"): (put_content, "contents"),
    ("GET", f"{_REPO}/git/ref/{{ref}}"): (get_ref, ""),
    ("POST", f"{_REPO}/git/refs"): (create_ref, "contents"),
    ("PATCH", f"{_REPO}/git/refs/{{ref}}"): (move_ref, "contents"),
    ("POST", f"{_REPO}/git/blobs"): (create_blob, "contents"),
    ("POST", f"{_REPO}/git/trees"): (create_tree, "contents"),
    ("POST", f"{_REPO}/git/commits"): (create_commit, "contents"),
    ("GET", f"{_REPO}/git/commits/{{commit_sha}}"): (get_commit, ""),
    ("GET", f"{_REPO}/actions/artifacts"): (list_artifacts, ""),
    ("GET", f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}"): (download, ""),
    ("GET", f"{_REPO}/actions/runs/{{run_id}}/artifacts"): (list_artifacts, ""),
    ("POST", f"{_REPO}/actions/runs/{{run_id}}/rerun"): (rerun, "actions"),
    ("GET", f"{_REPO}/collaborators/{{username}}/permission"): (get_permission, ""),
    ("GET", f"{_REPO}/actions/workflows/{{workflow_id}}/runs"): (list_runs, ""),
}
