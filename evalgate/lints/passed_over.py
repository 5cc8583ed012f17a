"""What a file asks its own engine to do in a run, and evalgate does not."""

from collections.abc import Iterator, Mapping

from evalgate.model import EvalCase, EvalSet
from evalgate.protocols import LooksAt, Metric

_OF_CASES = {
    ("trpc", "expectedRunnerEnabled"): "`expectedRunnerEnabled` is passed over: only what is written counts",
    ("orchestrate", "attack_data"): "`attack_data` is not looked at: the case is scored by its goals alone",
    ("orchestrate", "file_upload"): "`file_upload` is passed over: the agent gets no file",
    (
        "orchestrate",
        "user_prompts",
    ): "`user_prompts` are passed over: without a `starting_sentence` a simulated user says everything",
}


class PassedOver:
    """Looks at what is kept of a case for the way back alone."""

    def begin(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> LooksAt:
        """See `Lint.begin`."""
        del eval_set, metrics
        return _sentences


def _sentences(case: EvalCase) -> Iterator[str]:
    for (source, key), sentence in _OF_CASES.items():
        if case.native.get(source, {}).get(key):
            yield sentence
    for mock in case.tool_mocks:
        if mock.unsupported:
            place = "" if mock.turn is None else f"turn {mock.turn + 1}: "
            yield f"{place}{mock.unsupported}; the case will not be played"
