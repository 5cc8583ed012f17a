"""Describe how the time, the tokens and the cost of a run changed since the baseline."""

from evalgate.core.formatting import pluralize
from evalgate.core.types import Comparison

_LEAST_SHARE = 0.2
_LEAST_SECONDS = 0.1
"""The smallest changes that are shown: a share of time, tokens or cost, and seconds. Less is noise."""


def describe_run_costs(comparison: Comparison) -> str:
    """Return `a run takes 1.20 s (+0.40 s), 350 tokens (−112), on average over 12 cases`.

    The changes are those since the baseline. Only a figure that changed by a fifth or more is named, and the
    time only if it changed by 0.1 seconds or more. Return "" if there is no such figure.
    """
    then, now = comparison.then, comparison.now
    if then is None or now is None:
        return ""
    parts = []
    difference = now.duration_s - then.duration_s
    if abs(difference) >= max(_LEAST_SECONDS, _LEAST_SHARE * then.duration_s):
        parts.append(f"{now.duration_s:,.2f} s ({_format_change(difference, 2)} s)")
    tokens_then, tokens = then.input_tokens + then.output_tokens, now.input_tokens + now.output_tokens
    if tokens and tokens_then and abs(tokens - tokens_then) >= _LEAST_SHARE * tokens_then:
        parts.append(f"{pluralize(round(tokens), 'token')} ({_format_change(tokens - tokens_then, 0)})")
    if now.cost_usd and then.cost_usd and abs(now.cost_usd - then.cost_usd) >= _LEAST_SHARE * then.cost_usd:
        parts.append(f"{now.cost_usd:,.4f} USD ({_format_change(now.cost_usd - then.cost_usd, 4)} USD)")
    if not parts:
        return ""
    return f"a run takes {', '.join(parts)}, on average over {pluralize(now.cases, 'case')}"


def _format_change(difference: float, digits: int) -> str:
    rounded = round(difference, digits)
    sign = "+" if rounded > 0 else "−" if rounded < 0 else "±"
    return f"{sign}{abs(rounded):,.{digits}f}"
