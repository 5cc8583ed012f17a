"""Suggest what was probably meant by a name that is unknown."""

from collections.abc import Iterable

SIMILAR = 0.6
"""Share of equal letters from which a name is suggested, as in the standard library."""
NEARLY_EQUAL = 0.8
"""Share from which a name is taken for a misspelling if unknown names are no error by themselves.

`treshold` is a misspelling of the action's input `threshold`; `path` is a misspelling of no input."""


def did_you_mean(name: str, candidates: Iterable[str], *, cutoff: float = SIMILAR) -> str:
    """Return ` Did you mean `x`?` with the nearest candidate, or "" if none is near."""
    near = find_similar(name, candidates, cutoff=cutoff)
    return f" Did you mean `{near[0]}`?" if near else ""


def find_similar(
    name: str, candidates: Iterable[str], *, most: int = 1, cutoff: float = SIMILAR
) -> list[str]:
    """Return at most `most` candidates that resemble `name`, the most similar first.

    `cutoff`, from 0 to 1, is the least share of equal letters.
    """
    import difflib

    return difflib.get_close_matches(name, list(candidates), n=most, cutoff=cutoff)
