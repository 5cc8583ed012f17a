"""Twenty concurrent processes save a run in each kind of store: none of them is lost."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from evalgate.baselines.stores.file import FileStore
from evalgate.core.plugin_registry import resolve_baseline_store
from evalgate.core.protocols import StoreContext
from tests.frameworks.venvs import python_with

ROOT = Path(__file__).parents[3]
WRITERS = 20
ALL = [f"sha{number}" for number in range(WRITERS)]


def write_all(
    store: str, folder: Path, python: str = sys.executable, environ: Mapping[str, str] | None = None
) -> None:
    """Let every writer begin at the same time, and wait until all of them have written."""
    done = subprocess.run(
        [python, "-m", "tests.baselines.stores.writer", store, str(folder), str(WRITERS)],
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_in_a_file(tmp_path: Path) -> None:
    write_all("evals/baseline.json", tmp_path)
    found = FileStore(tmp_path / "evals/baseline.json", "").read()
    assert found is not None
    assert [source.commit for source in found.sources] == ALL
    assert [path.name for path in (tmp_path / "evals").iterdir()] == ["baseline.json"]


@pytest.mark.slow
def test_in_a_folder_behind_fsspec(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/evals"
    write_all(url, tmp_path)
    store = resolve_baseline_store(url, StoreContext(tmp_path))
    assert store is not None
    found = store.read()
    assert found is not None
    assert [source.commit for source in found.sources] == ALL


CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "planted-s3-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with s3fs, a server of S3, and what evalgate needs."""
    return python_with("s3")


@pytest.fixture(scope="module")
def s3(python: str) -> Iterator[Mapping[str, str]]:
    """What the environment says of a server of S3 with an empty bucket called `evals`."""
    with serving(python) as url:
        request = urllib.request.Request(f"{url}/evals", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            yield {**CREDENTIALS, "AWS_ENDPOINT_URL": url}


@contextmanager
def serving(python: str) -> Iterator[str]:
    command = [python, "-m", "tests.baselines.stores.s3server"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.communicate("")


def gate(python: str, folder: Path, environ: Mapping[str, str], *words: str) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}
    done = subprocess.run(
        [python, "-m", "evalgate", *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_in_a_bucket(python: str, s3: Mapping[str, str], tmp_path: Path) -> None:
    write_all("s3://evals/desk", tmp_path, python, s3)
    code, said = gate(
        python, tmp_path, s3, "baseline", "export", "--to", "s3://evals/desk", "--format", "csv"
    )
    assert code == 0, said
    assert [commit for commit in ALL if f",{commit}," in said] == ALL


@pytest.mark.slow
def test_a_bucket_end_to_end(python: str, s3: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(text):\n    return text\n", "utf-8")
    (tmp_path / "s.evalset.json").write_text(
        '{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [{"user_content": {"parts": '
        '[{"text": "tea"}]}, "final_response": {"parts": [{"text": "tea"}]}}]}]}',
        "utf-8",
    )
    (tmp_path / "evalgate.json").write_text(
        '{"version": 1, "eval_sets": ["s.evalset.json"], "agent": {"entry": "agent.py:answer"}, '
        '"criteria": {"response_match_score": 1.0}, "gate": {"baseline": "s3://evals/whole"}}',
        "utf-8",
    )
    code, said = gate(python, tmp_path, s3, "run")
    assert (code, "There is no baseline at s3://evals/whole yet." in said) == (0, True), said
    code, said = gate(python, tmp_path, s3, "baseline", "save", "--commit", "abc1234")
    assert (code, said) == (0, "Baseline of 1 case saved to s3://evals/whole.\n")
    code, said = gate(python, tmp_path, s3, "run")
    assert code == 0, said
    comment = (tmp_path / "evalgate-report/comment.md").read_text("utf-8")
    assert "since the baseline `s3://evals/whole` (up to 2" in comment
    assert "at `abc1234` of 2" in comment

    settings = (tmp_path / "evalgate.json").read_text("utf-8")
    (tmp_path / "evalgate.json").write_text(settings.replace("s3://evals/", "s3://eval/"), "utf-8")
    code, said = gate(python, tmp_path, s3, "run")
    told = "s3://eval/whole: there is no bucket eval: correct its name, or create it"
    assert (code, told in said) == (2, True), said
    (tmp_path / "evalgate.json").write_text(settings, "utf-8")

    wrong = {**s3, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    code, said = gate(python, tmp_path, wrong, "run")
    assert (code, "s3://evals/whole: the baseline cannot be reached" in said) == (3, True), said
    assert "planted-s3-secret" not in said
