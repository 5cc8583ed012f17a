"""Run the named benchmarks, or all. If options follow a single name, they are passed to this benchmark."""

import inspect
import sys

from benchmarks import (
    budgets,
    checks,
    cluster,
    hugesets,
    judgenoise,
    library,
    longruns,
    matching,
    overhead,
    parsing,
    realruns,
    remote,
    rouge,
    scheduling,
    size,
    startup,
    statistics,
)

ALL = {
    "startup": startup.main,
    "overhead": overhead.main,
    "scheduling": scheduling.main,
    "parsing": parsing.main,
    "rouge": rouge.main,
    "matching": matching.main,
    "statistics": statistics.main,
    "realruns": realruns.main,
    "size": size.main,
    "remote": remote.main,
    "longruns": longruns.main,
    "cluster": cluster.main,
    "checks": checks.main,
    "budgets": budgets.main,
    "hugesets": hugesets.main,
    "judgenoise": judgenoise.main,
    "library": library.main,
}


def main(names):
    """Run the benchmarks in `names` (all if empty) and print their tables. Exit with an error for unknown names."""
    first, *options = names or [""]
    if first in {"-h", "--help"}:
        print(f"{__doc__}\n\npython -m benchmarks [NAME...] [OPTION...]\n\n{', '.join(ALL)}")
        return
    takes_options = bool(options) and options[0].startswith("-")
    unknown = [name for name in names[: 1 if takes_options else None] if name not in ALL]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}. There are {', '.join(ALL)}.")
    if takes_options and not inspect.signature(ALL[first]).parameters:
        sys.exit(f"{first} takes no options")
    if takes_options:
        ALL[first](options)
        return
    for name in names or ALL:
        print(f"\n## {name}")
        ALL[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
