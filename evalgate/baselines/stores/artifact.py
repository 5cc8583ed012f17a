"""Store a baseline in an artifact of GitHub Actions: `artifact:[WORKFLOW.yml/]NAME[:FILE]`.

The store searches the successful runs of a workflow on the default branch of this repository, the newest run
first, and reads the first artifact that it finds. Artifacts of pull requests are never read: anyone can open
a pull request from a branch with the name of the default branch, and upload an artifact of any name.
Artifacts cannot be changed: an update writes the file, and the next step of the workflow uploads it.
"""

import hashlib
import io
import random
import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from evalgate.baselines.serialization import dump_baseline, is_baseline, load_baseline_or_results
from evalgate.ci.github_client import Account, GitHubConnection, build_connection, retry_transient
from evalgate.ci.posting import (
    NotFoundError,
    PostError,
    PostTimeouts,
    RetriesExhaustedError,
    TransientError,
)
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import StoreContext
from evalgate.core.types import Baseline
from evalgate.documents.strict_json import parse_json
from evalgate.system.files import read_file, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from github.Artifact import Artifact
    from github.Repository import Repository
    from github.WorkflowRun import WorkflowRun
    from requests import PreparedRequest, Response


class InvalidZipError(Exception):
    """Error of a zip file that cannot be used. The message states the reason, such as `it is no zip`."""


def read_zip_member(data: bytes, name: str, *, largest: int) -> bytes:
    """Return the whole content of the file `name` in a zip. Refuse a file of more than `largest` bytes.

    The size that the zip states is not trusted: the bytes are counted while they are read.

    Raises:
        InvalidZipError: `data` is no zip or has not exactly one file `name`, or the file is too large,
            encrypted or damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _read_member(archive, _find_member(archive, name), largest)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
        raise InvalidZipError("it is no zip, or damaged") from None
    except (RuntimeError, NotImplementedError):
        raise InvalidZipError(f"its `{name}` is encrypted, or packed in a way that is not known") from None


def _find_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    found = [entry for entry in archive.infolist() if entry.filename == name]
    if len(found) > 1:
        raise InvalidZipError(f"it holds `{name}` {len(found)} times")
    if not found:
        others = ", ".join(entry.filename for entry in archive.infolist()[:5])
        raise InvalidZipError(f"it holds no `{name}`, but {others or 'nothing'}")
    return found[0]


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, largest: int) -> bytes:
    with archive.open(entry) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise InvalidZipError(f"its `{entry.filename}` is larger than {largest:,} bytes")
    return content


DEFAULT_FILE = "baseline.json"
EVENTS = ("push", "schedule", "workflow_dispatch")
"""Events of the workflow runs to read: on the default branch, such runs execute only code of this branch."""

_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN", "INPUT_TOKEN")
_LARGEST_ZIP = 128 * 1024 * 1024
_LARGEST_FILE = 256 * 1024 * 1024
_MOST_RUNS = 30
"""Maximum number of runs of each event that are searched."""
_CHUNK = 64 * 1024
_PATIENCE = PostTimeouts(total_s=90.0, request_s=20)

# Names that `actions/upload-artifact` allows, without white space. A name is also a folder of the workspace.
_NAME = r"(?!\.)[\w.+@=-]{1,200}"
_FILE = rf"{_NAME}(?:/{_NAME})*"
_WHAT = re.compile(rf"(?:(?P<workflow>{_NAME}\.ya?ml)/)?(?P<name>{_NAME})(?::(?P<file>{_FILE}))?")
_WORKFLOW_REF = re.compile(r"[^@]*/(?P<workflow>[^/@]+\.ya?ml)@.*", re.DOTALL)


def build_artifact_store(name: str, context: StoreContext) -> "ArtifactStore":
    """Build the store for `name`, the part after `artifact:`: NAME, NAME:FILE or WORKFLOW.yml/NAME:FILE.

    Raises:
        InvalidInputError: `name` has another form.
    """
    found = _WHAT.fullmatch(name)
    if found is None:
        raise InvalidInputError(
            f"artifact:{name}: must be artifact:NAME, artifact:NAME:FILE or artifact:WORKFLOW.yml/NAME:FILE"
        )
    return ArtifactStore(context, found["name"], found["file"] or DEFAULT_FILE, found["workflow"] or "")


@dataclass(slots=True)
class ArtifactStore:
    """Baseline store in the file `file` of the artifact `name` that the runs of a workflow upload.

    Only good runs are read: runs of `EVENTS` that succeeded on the default branch of this repository.
    """

    context: StoreContext
    name: str
    file: str = DEFAULT_FILE
    workflow: str = ""
    """File name of the workflow; "" for the workflow of the running job."""
    patience: PostTimeouts = field(default=_PATIENCE, repr=False)
    """Time limits of the requests to GitHub."""
    absence: str = ""
    """Reason why `read` returned None, as part of a sentence; "" otherwise."""

    @property
    def shown_as(self) -> str:
        """Return the name of the store in reports, such as `artifact:NAME:baseline.json`."""
        return f"artifact:{self.workflow}{'/' if self.workflow else ''}{self.name}:{self.file}"

    @property
    def next_step(self) -> str:
        """Return a sentence about the step that uploads the updated file."""
        return f"Upload the folder {self.name} as the artifact `{self.name}`."

    def read(self) -> Baseline | None:
        """Read the baseline of the newest good run that still has the artifact.

        A run is good if its event is one of `EVENTS`, and if it succeeded on the default branch of this
        repository. If no recent good run has the artifact, set `absence` to the reason and return None.

        Raises:
            InvalidInputError: the artifact holds no valid baseline, the token or the workflow is unknown, or
                GitHub refuses the request.
            NoVerdictError: GitHub does not answer in time.
        """
        deadline = time.monotonic() + self.patience.total_s
        try:
            tokens = (self.context.environ.get(name, "").strip() for name in _TOKENS)
            account = Account.from_environment(self.context.environ, next(filter(None, tokens), ""))
            search = _ArtifactSearch(self, account, build_connection(account, self.patience), deadline)
            kept = retry_transient(search.find_newest, self.patience, deadline, jitter=random.random)
        except NotFoundError as error:
            raise InvalidInputError(f"{self.shown_as}: {error} {self._describe_permissions()}") from None
        except PostError as error:
            raise self._convert_error(error) from None
        if isinstance(kept, str):
            self.absence = kept
            return None
        try:
            data = read_zip_member(kept.content, self.file, largest=_LARGEST_FILE)
        except InvalidZipError as error:
            raise InvalidInputError(
                f"{self.shown_as} of run {kept.run}: it cannot be used: {error}."
            ) from None
        found = load_baseline_or_results(data, f"{self.shown_as} of run {kept.run}")
        return replace(found, path=self.shown_as, version=f"run {kept.run}")

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Write the result of `change` to the file that a later step uploads, and return the result.

        If an earlier step wrote this file, `change` gets the baseline in it. Otherwise, `change` gets the
        baseline of the artifact, or None if there is no artifact.

        Raises:
            InvalidInputError: the file or the artifact cannot be read or holds no baseline, or GitHub refuses
                the request.
            NoVerdictError: GitHub does not answer in time.
            OSError: the file cannot be written.
        """
        path = self.context.folder / self.name / self.file
        after = change(self._load_written(self._read_written(path)) if path.exists() else self.read())
        write_atomically(path, dump_baseline(after), owner=self.context.owner)
        return replace(after, path=self.shown_as, version="")

    def _read_written(self, path: "Path") -> bytes:
        try:
            return read_file(path)
        except OSError as error:
            shown_as = f"{self.name}/{self.file}"
            raise InvalidInputError(f"{shown_as}: the baseline cannot be read: {error.strerror}") from None

    def _load_written(self, data: bytes) -> Baseline:
        shown_as = f"{self.name}/{self.file}"
        if not is_baseline(parse_json(data, shown_as)):
            raise InvalidInputError(
                f"{shown_as}: this is no baseline, and is left as it is. Name another file, as "
                f"artifact:{self.name}:{DEFAULT_FILE}."
            )
        return load_baseline_or_results(data, shown_as)

    def find_workflow_file(self) -> str:
        """Return the file name of the workflow that uploads the artifact.

        This is `workflow` or, if `workflow` is "", the workflow of the running job.

        Raises:
            PostError: the store names no workflow, and no job of GitHub Actions is running.
        """
        running = _WORKFLOW_REF.fullmatch(self.context.environ.get("GITHUB_WORKFLOW_REF", ""))
        found = self.workflow or (running["workflow"] if running else "")
        if not found:
            raise PostError(
                "no job of GitHub Actions runs here: name the workflow, artifact:WORKFLOW.yml/NAME"
            )
        return found

    def _convert_error(self, error: PostError) -> InvalidInputError | NoVerdictError:
        if isinstance(error, RetriesExhaustedError):
            return NoVerdictError(
                f"{self.shown_as}: the baseline cannot be read: {error}. Run the job again."
            )
        advice = f" {self._describe_permissions()}" if error.kind == "skipped" else ""
        return InvalidInputError(f"{self.shown_as}: the baseline cannot be read: {error}.{advice}")

    def _describe_permissions(self) -> str:
        return "The job needs `permissions: actions: read` and the variable GITHUB_TOKEN."


@frozen
class _StoredArtifact:
    """Content of an artifact, and the id of the run that uploaded the artifact."""

    run: int
    content: bytes
    """Bytes of the zip file."""


@frozen
class _ArtifactSearch:
    """Search for an artifact in good runs of a workflow: runs that succeeded on the default branch."""

    wanted: ArtifactStore
    account: Account
    connection: GitHubConnection
    deadline: float
    """Time of `time.monotonic()` after which no request is repeated."""

    def find_newest(self) -> _StoredArtifact | str:
        """Download the artifact from the newest good run that still has the artifact.

        If no recent good run has the artifact, return the reason as a part of a sentence.

        Raises:
            PostError: GitHub refuses a request, or the artifact is too large or arrives too slowly.
        """
        with self.connection.translate_errors():
            repository = self.connection.repository
            branch, expired = repository.default_branch, False
            for run in self._iter_good_runs(repository, branch):
                kept = [each for each in run.get_artifacts() if each.name == self.wanted.name]
                expired = expired or any(each.expired for each in kept)
                alive = [each for each in kept if not each.expired]
                if alive:
                    # A run that is started again uploads a second artifact: the newest counts.
                    return _StoredArtifact(
                        run.id, self._download_artifact(max(alive, key=lambda each: each.id))
                    )
            if expired:
                return f"the artifacts that good runs on {branch} kept have expired"
            return f"no good run of {self.wanted.find_workflow_file()} on {branch} kept it"

    def _iter_good_runs(self, repository: "Repository", branch: str) -> "Iterator[WorkflowRun]":
        """Yield good runs on the default branch, the newest first, among the last 30 runs of each event."""
        workflow = repository.get_workflow(self.wanted.find_workflow_file())
        found = [
            run
            for event in EVENTS
            for run in islice(workflow.get_runs(branch=branch, event=event, status="success"), _MOST_RUNS)
            if _is_good_run(run, repository, branch)
        ]
        yield from sorted(found, key=lambda run: run.id, reverse=True)

    def _download_artifact(self, artifact: "Artifact") -> bytes:
        if artifact.size_in_bytes > _LARGEST_ZIP:
            raise PostError(f"the artifact has {artifact.size_in_bytes:,} bytes, more than a baseline needs")
        content = self._download_content(self._find_storage_url(artifact.id))
        if artifact.digest and artifact.digest != f"sha256:{hashlib.sha256(content).hexdigest()}":
            raise TransientError("the artifact did not arrive as it was kept")
        return content

    def _find_storage_url(self, number: int) -> str:
        """Return the storage URL of the artifact with the id `number`.

        Requests to this URL need no token, and must not send one.
        """
        import requests
        from github import GithubException

        api, token = self.account.api_url.rstrip("/"), self.account.token
        answer = requests.get(
            f"{api}/repos/{self.account.repository}/actions/artifacts/{number}/zip",
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/vnd.github+json",
            },
            allow_redirects=False,
            timeout=self.wanted.patience.request_s,
        )
        if answer.status_code != requests.codes.found:
            raise GithubException(answer.status_code, _parse_object(answer), dict(answer.headers))
        location = answer.headers.get("Location", "")
        if not location.startswith("https://") and api.startswith("https://"):
            raise PostError("GitHub sends the artifact over an open connection")
        return location

    def _download_content(self, location: str) -> bytes:
        import requests

        content = bytearray()
        with requests.get(
            location, auth=_ignore_netrc, stream=True, timeout=self.wanted.patience.request_s
        ) as answer:
            if answer.status_code != requests.codes.ok:
                raise TransientError(f"the storage of artifacts answered {answer.status_code}")
            for chunk in answer.iter_content(_CHUNK):
                content += chunk
                if len(content) > _LARGEST_ZIP:
                    raise PostError("the artifact is larger than GitHub said")
                if time.monotonic() > self.deadline + self.wanted.patience.request_s:
                    raise RetriesExhaustedError("the artifact comes too slowly")
        return bytes(content)


def _is_good_run(run: "WorkflowRun", repository: "Repository", branch: str) -> bool:
    """Return True if the run succeeded on `branch` of this repository, and its event is one of `EVENTS`."""
    return (
        run.conclusion == "success"
        and run.event in EVENTS
        and run.head_branch == branch
        and run.head_repository is not None
        and run.head_repository.id == repository.id
    )


def _ignore_netrc(request: "PreparedRequest") -> "PreparedRequest":
    """Return the request unchanged. Passed as `auth`, the function keeps `requests` from reading .netrc."""
    return request


def _parse_object(answer: "Response") -> Mapping[str, object]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
