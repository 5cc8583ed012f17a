"""Suggest a known name that is similar to an unknown one."""

from collections.abc import Iterable

SIMILAR = 0.6
"""Least similarity, from 0 to 1, of a name that is suggested: the default of `difflib`."""
NEARLY_EQUAL = 0.8
"""Least similarity, from 0 to 1, at which a name counts as misspelt although unknown names are allowed.

For example, `treshold` counts as a misspelling of the GitHub action's input `threshold`."""


def did_you_mean(name: str, candidates: Iterable[str], *, cutoff: float = SIMILAR) -> str:
    """Return " Did you mean `x`?", with a leading space, for the most similar candidate.

    Return "" if the similarity of all candidates is below `cutoff`. Similarities are from 0 to 1.
    """
    near = find_similar(name, candidates, cutoff=cutoff)
    return f" Did you mean `{near[0]}`?" if near else ""


def find_similar(
    name: str, candidates: Iterable[str], *, most: int = 1, cutoff: float = SIMILAR
) -> list[str]:
    """Return at most `most` candidates that resemble `name`, the most similar first.

    `cutoff`, from 0 to 1, is the least similarity: the ratio that `difflib` computes.
    """
    import difflib

    return difflib.get_close_matches(name, list(candidates), n=most, cutoff=cutoff)
