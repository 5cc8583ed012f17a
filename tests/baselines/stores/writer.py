"""Add gate runs to a baseline in several child processes at the same time: `writer.py STORE FOLDER WRITERS`."""

import importlib
import multiprocessing
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

from evalgate.baselines.history import join_baselines, split_baseline
from evalgate.baselines.stores.file import FileStore
from evalgate.core.plugin_registry import resolve_baseline_store
from evalgate.core.protocols import StoreContext
from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource


def a_gate_run(number: int) -> Baseline:
    source = BaselineSource(
        f"2026-11-20T08:00:{number:02d}+00:00", f"sha{number}", "main", digest=str(number)
    )
    case = BaselineCase(
        "travel", "paris", "passed", "f", {"m": "1"}, (BaselineRun(0, "answered", {"m": 1.0}),)
    )
    return Baseline((case,), (source,))


def write(store: str, folder: Path, number: int) -> None:
    place = StoreContext(folder)
    kept = resolve_baseline_store(store, place) or FileStore(folder / store, store)
    kept.update(lambda before: _with(before, a_gate_run(number)))


def _with(before: Baseline | None, fresh: Baseline) -> Baseline:
    return join_baselines((*split_baseline(before), fresh)) or fresh if before else fresh


def write_when_all_are_ready(barrier: Barrier, store: str, folder: Path, number: int) -> None:
    barrier.wait(timeout=120)
    write(store, folder, number)


def run_writers(store: str, folder: Path, count: int) -> bool:
    """Let `count` processes write at the same time, and return True if all of them succeed.

    The processes are forked after the imports, which would take a second in each process for a bucket.
    """
    importlib.import_module("evalgate.baselines.stores.fsspec")
    if "://" in store:
        importlib.import_module("fsspec").get_filesystem_class(store.partition("://")[0])
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    writers = [
        context.Process(target=write_when_all_are_ready, args=(barrier, store, folder, number))
        for number in range(count)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return all(writer.exitcode == 0 for writer in writers)


if __name__ == "__main__":
    sys.exit(not run_writers(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
