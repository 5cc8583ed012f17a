"""A program that adds one gate run to a baseline on request: `writer.py STORE FOLDER NUMBER`."""

import sys
from pathlib import Path

from evalgate.baselines.history import join_baselines, split_baseline
from evalgate.baselines.stores.file import FileStore
from evalgate.core.protocols import StoreContext
from evalgate.core.registry import resolve_baseline_store
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


if __name__ == "__main__":
    if "://" in sys.argv[1]:
        import fsspec

        # what takes long is over when all of them start
        fsspec.get_filesystem_class(sys.argv[1].partition("://")[0])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    write(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
