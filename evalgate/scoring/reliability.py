"""pass^k and pass@k: whether k runs of a case would all pass, or at least one of them.

Unbiased estimators from n ≥ k runs of which c passed: pass^k is C(c, k) / C(n, k) (Yao et al. 2024,
arXiv:2406.12045), pass@k is 1 − C(n − c, k) / C(n, k) (Chen et al. 2021, arXiv:2107.03374).
"""

from math import comb

from evalgate.model import Reliability


def estimate(wanted: Reliability, *, passed: int, runs: int) -> float:
    """In [0, 1], exact at both ends. `runs` must be at least `wanted.k`, and `passed` at most `runs`."""
    of = comb(runs, wanted.k)
    if wanted.kind == "pass^k":
        return comb(passed, wanted.k) / of
    return (of - comb(runs - passed, wanted.k)) / of
