"""A baseline in objects behind fsspec: nothing is overwritten, so no run is lost."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.baselines.history import add_run, build_baseline, prune_runs, replace_runs
from evalgate.baselines.serialization import dump_baseline
from evalgate.baselines.stores.fsspec import FsspecStore
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.plugin_registry import resolve_baseline_store
from evalgate.core.protocols import BaselineStore, StoreContext
from evalgate.core.types import Baseline, BaselineSource, Record
from evalgate.datasets.results_io import dump_record
from tests.baselines.stores.writer import a_gate_run, write
from tests.builders import a_case_result, a_record

RECORD = a_record(a_case_result("paris"), a_case_result("rome"))


@pytest.fixture(autouse=True)
def memory() -> Iterator[Any]:
    """fsspec's own store in memory, empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


def at(url: str, **environ: str) -> BaselineStore:
    made = resolve_baseline_store(url, StoreContext(Path(), environ))
    assert isinstance(made, FsspecStore)
    return made


def source(day: int) -> BaselineSource:
    return BaselineSource(f"2026-11-{day:02d}T08:00:00+00:00", f"sha{day}", "main", digest=f"d{day}")


def adding(record: Record, day: int, keep: int = 20) -> Callable[[Baseline | None], Baseline]:
    return lambda before: add_run(before, record, source(day), keep=keep)


def commits_in(baseline: Baseline | None) -> list[str | None]:
    return [source.commit for source in baseline.sources] if baseline else []


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_what_was_added_is_read(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://{tmp_path}/desk/baseline"
    assert at(url).read() is None
    after = at(url).update(adding(RECORD, 1))
    assert after == replace(build_baseline(RECORD, source(1)), path=url)
    at(url).update(adding(RECORD, 2))
    found = at(url).read()
    assert found is not None
    assert (commits_in(found), found.path) == (["sha1", "sha2"], url)
    assert found.version.startswith("up to 20261102T0800000000-")
    assert {len(case.runs) for case in found.cases} == {2}


def test_each_gate_run_is_an_object_that_is_never_written_again(memory: Any) -> None:
    store = at("memory://b/desk")
    store.update(adding(RECORD, 1))
    first = {path: bytes(file.getvalue()) for path, file in memory.store.items()}
    store.update(adding(a_record(a_case_result("paris", "failed")), 2))
    store.update(adding(RECORD, 2))  # twice the same
    assert len(memory.store) == 2
    assert {path: bytes(memory.store[path].getvalue()) for path in first} == first


def test_old_gate_runs_fall_off_the_end(memory: Any) -> None:
    store = at("memory://b/desk")
    for day in range(1, 6):
        store.update(adding(RECORD, day, keep=3))
    assert commits_in(store.read()) == ["sha3", "sha4", "sha5"]
    assert len(memory.store) == 3


def test_what_is_accepted_stands_alone(memory: Any) -> None:
    store = at("memory://b/desk")
    store.update(adding(RECORD, 1))
    store.update(lambda _: replace_runs(RECORD, source(2), "meant"))
    found = store.read()
    assert found is not None
    assert [(each.commit, each.accepted) for each in found.sources] == [("sha2", "meant")]
    assert len(memory.store) == 1


steps = st.lists(
    st.tuples(
        st.integers(1, 28),
        st.sets(st.sampled_from("abc"), min_size=1),
        st.sampled_from("fg"),
        st.sampled_from(["save", "accept", "prune"]),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(steps)
def test_it_holds_what_a_file_would(taken: list[tuple[int, set[str], str, str]]) -> None:
    fsspec.filesystem("memory").store.clear()
    store, beside = at("memory://b/desk"), None
    for day, names, fingerprint, what in taken:
        cases = [replace(a_case_result(name), fingerprint=fingerprint) for name in sorted(names)]
        record = a_record(*cases)

        def change(
            before: Baseline | None, record: Record = record, day: int = day, what: str = what
        ) -> Baseline:
            if what == "accept":
                return replace_runs(record, source(day), "meant")
            after = add_run(before, record, source(day), keep=4)
            return prune_runs(after, keep=2) if what == "prune" else after

        beside = change(beside)
        store.update(change)
    assert told(store.read()) == told(beside)


def told(baseline: Baseline | None) -> object:
    """Which gate run tells what of a case, whatever their order."""
    if baseline is None:
        return None
    return {
        (case.eval_id, case.fingerprint, baseline.sources[run.source].digest)
        for case in baseline.cases
        for run in case.runs
    }


def test_who_is_pushed_out_while_we_read_is_read_again(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = at("memory://b/desk")
    for day in (1, 2):
        store.update(adding(RECORD, day))
    listed = type(memory).ls

    def ls_of_before(self: Any, *arguments: Any, **options: Any) -> Any:
        found = listed(self, *arguments, **options)
        monkeypatch.undo()
        at("memory://b/desk").update(lambda before: prune_runs(before or build_baseline(RECORD), keep=1))
        return found

    monkeypatch.setattr(type(memory), "ls", ls_of_before)
    assert commits_in(store.read()) == ["sha2"]


def test_nobody_loses_a_run_that_was_saved_between_reading_and_writing() -> None:
    def slowly(before: Baseline | None) -> Baseline:
        at("memory://b/desk").update(adding(RECORD, 2))
        return add_run(before, RECORD, source(1))

    at("memory://b/desk").update(slowly)
    assert commits_in(at("memory://b/desk").read()) == ["sha1", "sha2"]


def test_twenty_threads_lose_no_run(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/desk"
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: write(url, tmp_path, number), range(20)))
    assert commits_in(at(url).read()) == [f"sha{number}" for number in range(20)]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("content", [dump_baseline(a_gate_run(1)), dump_record(RECORD)])
def test_a_single_file_can_be_read_and_is_left_as_it_is(memory: Any, content: str) -> None:
    memory.pipe_file("/b/results.json", content.encode())
    found = at("memory://b/results.json").read()
    assert found is not None
    assert found.path == "memory://b/results.json"
    with pytest.raises(InvalidInputError, match="this is one file, which is left as it is"):
        at("memory://b/results.json").update(lambda _: a_gate_run(2))
    assert memory.cat_file("/b/results.json") == content.encode()


def test_what_others_keep_there_is_left_alone(memory: Any) -> None:
    memory.pipe_file("/b/desk/README.md", b"hello")
    at("memory://b/desk").update(adding(RECORD, 1))
    assert commits_in(at("memory://b/desk").read()) == ["sha1"]
    assert memory.cat_file("/b/desk/README.md") == b"hello"


@pytest.mark.parametrize(
    "content", [b"{", b"[]", dump_record(RECORD).encode(), json.dumps({"kind": "evalgate-baseline"}).encode()]
)
def test_a_damaged_gate_run_is_named(memory: Any, content: bytes) -> None:
    memory.pipe_file(f"/b/desk/20261120-{'0' * 16}.json", content)
    with pytest.raises(InvalidInputError) as caught:
        at("memory://b/desk").read()
    assert str(caught.value).startswith(f"memory://b/desk/20261120-{'0' * 16}.json")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://me:hunter2@bucket/x", "s3://bucket/x: a baseline's URL holds no credentials"),
        ("https://token@host/x.json", "https://host/x.json: a baseline's URL holds no credentials"),
        ("https://host/x.json?sig=hunter2", "https://host/x.json: a baseline's URL is SCHEME://PLACE/FOLDER"),
        ("s3://bucket/*/x", "without `?`, `#`, `..`, blanks and wildcards"),
        ("s3://bucket/../x", "without `?`, `#`, `..`, blanks and wildcards"),
        ("filecache::s3://bucket/x", "is no kind of baseline"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_secret(url: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve_baseline_store(url, StoreContext(Path()))
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_misspelt_kind_is_no_path_of_a_file(tmp_path: Path) -> None:
    place = StoreContext(tmp_path)
    with pytest.raises(InvalidInputError, match=r"`artifct` is no kind of baseline.*`artifact`"):
        resolve_baseline_store("artifct:evalgate-baseline", place)
    (tmp_path / "brnch:x").touch()
    assert resolve_baseline_store("brnch:x", place) is None
    assert resolve_baseline_store("evals/baseline.json", place) is None


def test_a_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(
        InvalidInputError, match=r"s3:// needs a driver .*install evalgate with its extra `s3`: `.+`"
    ):
        at("s3://bucket/desk").read()
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InvalidInputError, match=r"memory:// needs a driver .*its extra `fsspec`: `"):
        at("memory://b").read()
    with pytest.raises(InvalidInputError, match=r"sftp:// needs a driver .*: `pip install fsspec paramiko`"):
        at("sftp://b/c").read()


def test_a_scheme_that_nobody_knows_is_told() -> None:
    with pytest.raises(InvalidInputError, match=r"s4://b/x: it cannot be used: .*Protocol not known: s4"):
        at("s4://b/x").read()


class Refusing:
    """A driver that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> object:
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError("Access Denied for AKIA-hunter2"), InvalidInputError),
        (type("NoCredentialsError", (Exception,), {})("Unable to locate hunter2"), InvalidInputError),
        (TimeoutError("no answer; key hunter2"), NoVerdictError),
        (RuntimeError("hunter2"), NoVerdictError),
    ],
)
def test_what_a_driver_says_is_told_without_secrets(
    memory: Any, error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(memory), "ls", Refusing(error))
    store = at("memory://b/desk", AWS_SECRET_ACCESS_KEY="hunter2")
    with pytest.raises(kind) as caught:
        store.read()
    assert "hunter2" not in str(caught.value)
    assert type(error).__name__ in str(caught.value)
    with pytest.raises((InvalidInputError, OSError)) as other:
        store.update(adding(RECORD, 1))
    assert "hunter2" not in str(other.value)


def test_the_command_line_never_loads_it() -> None:
    code = "import evalgate.cli.main, evalgate.runner.plan, sys; sys.exit('fsspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
