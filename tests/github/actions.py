"""Endpoints of the fake GitHub for workflow runs and artifacts."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.github.contract import sample
from tests.github.requests import Answer, Asked, Page, Redirect, Refused
from tests.github.world import OURS, Artifact, Run, World

BLOBS = "/_blobs/"
"""Path of the storage that serves the content of artifacts. Clients must not send a token there."""


@dataclass(frozen=True)
class _Shown:
    """Values in the description of an artifact that are not its own: its run and the API's address."""

    run: Run | None
    base: str


def list_runs(world: World, asked: Asked) -> Answer:
    """Return the runs of one workflow or of all workflows, newest first."""
    workflow = asked.values.get("workflow_id")
    known = {run.workflow for run in world.runs}
    if workflow is not None and workflow not in known:
        raise Refused(404, "Not Found")
    found = [run for run in world.runs if workflow in {None, run.workflow} and _fits(run, asked.query)]
    ordered = sorted(found, key=lambda run: run.number, reverse=True)
    return 200, Page([_shown_run(run, asked.base) for run in ordered], total=True, name="workflow_runs")


def rerun(world: World, asked: Asked) -> Answer:
    """Note the request to start all jobs of a run again."""
    number = int(asked.values["run_id"])
    if number not in {run.number for run in world.runs}:
        raise Refused(404, "Not Found")
    world.reruns.append(number)
    return 201, {}


def list_artifacts(world: World, asked: Asked) -> Answer:
    """Return the artifacts of one run or of all runs, newest first."""
    runs = {run.number: run for run in world.runs}
    run_id = asked.values.get("run_id")
    if run_id is not None and int(run_id) not in runs:
        raise Refused(404, "Not Found")
    wanted = asked.query.get("name")
    found = [
        _shown_artifact(each, _Shown(runs.get(each.run), asked.base))
        for each in reversed(world.artifacts)
        if wanted in {None, each.name} and run_id in {None, str(each.run)}
    ]
    return 200, Page(found, total=True, name="artifacts")


def download(world: World, asked: Asked) -> Answer:
    """Return a redirect to the zip in the storage of artifacts."""
    wanted = int(asked.values["artifact_id"])
    found = next((each for each in world.artifacts if each.number == wanted), None)
    if found is None or asked.values["archive_format"] != "zip":
        raise Refused(404, "Not Found")
    if found.expired:
        raise Refused(410, "Artifact has expired")
    # another host, as the real one
    elsewhere = asked.base.replace("127.0.0.1", "localhost").partition("/api/")[0]
    return 302, Redirect(f"{elsewhere}{BLOBS}{found.number}?sig=s3cr3t")


def stored(world: World, path: str) -> bytes:
    """Return the zip at a path of the storage."""
    number = int(path.removeprefix(BLOBS))
    return next(each.content for each in world.artifacts if each.number == number)


def _fits(run: Run, query: Mapping[str, str]) -> bool:
    status = query.get("status")
    return (
        query.get("branch") in {None, run.branch}
        and query.get("event") in {None, run.event}
        and query.get("head_sha") in {None, run.sha}
        and (status in {None, run.conclusion} or (status == "completed" and run.conclusion is not None))
    )


def _shown_run(run: Run, base: str) -> Mapping[str, Any]:
    repository = sample("minimal-repository", id=run.repository)
    url = f"{base}/repos/acme/demo/actions/runs/{run.number}"
    return sample(
        "workflow-run",
        id=run.number,
        event=run.event,
        head_branch=run.branch,
        head_sha=run.sha,
        status="completed" if run.conclusion else "in_progress",
        conclusion=run.conclusion,
        head_repository=repository,
        repository=repository | {"id": OURS},
        path=f".github/workflows/{run.workflow}",
        url=url,
        artifacts_url=f"{url}/artifacts",
    )


def _shown_artifact(artifact: Artifact, beside: _Shown) -> Mapping[str, Any]:
    run, url = beside.run, f"{beside.base}/repos/acme/demo/actions/artifacts/{artifact.number}"
    of_run = {
        "id": artifact.run,
        "repository_id": OURS,
        "head_repository_id": run.repository if run else OURS,
        "head_branch": run.branch if run else "main",
        "head_sha": "5f" * 20,
    }
    digest = artifact.digest or f"sha256:{hashlib.sha256(artifact.content).hexdigest()}"
    return sample(
        "artifact",
        id=artifact.number,
        name=artifact.name,
        size_in_bytes=len(artifact.content),
        expired=artifact.expired,
        url=url,
        archive_download_url=f"{url}/zip",
        digest=digest,
        workflow_run=of_run,
    )
