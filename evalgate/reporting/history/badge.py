"""A badge with the share of passing cases on the default branch, as one SVG that loads nothing."""

import html
from datetime import datetime

from evalgate.baselines.history import STALE_DAYS, compute_age_days
from evalgate.core.sanitize import strip_invisible
from evalgate.reporting.history.series import GateRunHistory

_GREEN, _AMBER, _RED, _GREY = "#18723d", "#8a5a00", "#b3261e", "#5b6472"
_AMBER_SHARE = 0.9
"""Share of passing cases below which the badge is red."""
_CHARACTER = 6.6
"""Average width of a character in pixels, at 11 pixels of Verdana; `textLength` makes it exact."""
_PADDING = 12


def render_badge(history: GateRunHistory, label: str, now: datetime) -> str:
    """Return the badge as SVG: `label` on the left, and the number of passed cases on the right.

    A case passed if it passed in the newest stored run of the gate that has the case. The badge is green if
    all cases passed, amber from 90 % on, and red below 90 % or without cases. But if the newest gate run is
    more than 14 days old at `now`, the badge is grey and shows its day.
    """
    message = f"{history.passing}/{history.cases} passed"
    share = history.passing / history.cases if history.cases else 0.0
    color = _GREEN if share == 1 else _AMBER if share >= _AMBER_SHARE else _RED
    if (compute_age_days(history.sources[-1:], now) or 0) > STALE_DAYS:
        message, color = f"{message}, {(history.sources[-1].created_at or '')[:10]}", _GREY
    label = strip_invisible(label)
    left, right = _measure(label), _measure(message)
    name, width = html.escape(f"{label}: {message}"), left + right
    texts = "".join(
        f'<text x="{at + size / 2:g}" y="14" textLength="{size - _PADDING:g}">{html.escape(text)}</text>'
        for at, size, text in ((0, left, label), (left, right, message))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}">'
        f'<title>{name}</title><clipPath id="r{width}"><rect width="{width}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r{width})"><rect width="{left}" height="20" fill="#3b424c"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{color}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" '
        f'font-size="11">{texts}</g></svg>\n'
    )


def _measure(text: str) -> int:
    return round(len(text) * _CHARACTER) + _PADDING
