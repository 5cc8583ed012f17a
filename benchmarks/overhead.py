"""What evalgate itself costs per case: an agent that does nothing, in a worker, with both metrics."""

import tempfile

from benchmarks.measure import evalgate, median, write_project

GOAL = 300  # µs of CPU, gate and worker together


def main():
    """CPU, throughput and memory at three sizes; the marginal cost is what a further case takes."""
    costs = {cases: _cost(cases) for cases in (1, 1_000, 10_000)}
    base = costs[1]
    for cases in (1_000, 10_000):
        cost = costs[cases]
        marginal = (cost.cpu - base.cpu) / cases * 1e6
        print(
            f"{cases:6} cases  {cases / cost.wall:7.0f} cases/s  {cost.cpu / cases * 1e6:5.0f} µs CPU a case  "
            f"{marginal:5.0f} µs marginal (goal {GOAL})  gate {cost.peak_mb:5.0f} MB "
            f"({(cost.peak_mb - base.peak_mb) / cases * 1024:.1f} KB a case)"
        )


def _cost(cases):
    with tempfile.TemporaryDirectory() as folder:
        arguments = write_project(folder, cases)
        return median(evalgate(*arguments, "--concurrency", "64"), cwd=folder, times=3)
