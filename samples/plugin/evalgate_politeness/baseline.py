"""A baseline store: `gate.baseline: memory:anything` remembers nothing between runs."""

from collections.abc import Callable

from evalgate.plugins import Baseline, StoreContext


class Memory:
    def __init__(self) -> None:
        self.kept: Baseline | None = None

    def read(self) -> Baseline | None:
        return self.kept

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        self.kept = change(self.kept)
        return self.kept


def build(what: str, context: StoreContext) -> Memory:
    return Memory()
