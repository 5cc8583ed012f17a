"""The body of a webhook about a finished run: documented JSON, or a message for Slack or Teams."""

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from evalgate.core.formatting import join_first
from evalgate.core.sanitize import shorten_text, strip_invisible
from evalgate.core.types import JsonObject, Record
from evalgate.reporting.baseline_lines import group_changes
from evalgate.reporting.summary_lines import describe_verdict, format_baseline, format_mean

WebhookFormat: TypeAlias = Literal["json", "slack", "teams"]
VERSION = 1
"""Version of the JSON format. It increases if a key is renamed or removed."""
_MOST_NAMED = 20
_LONGEST_LINE = 300
_LONGEST_TEXT = 2_800
"""Maximum number of characters in a section for Slack, which refuses more than 3,000."""
_CUT_ESCAPE = re.compile(r"&[a-z]*…\Z")
"""Pattern of an incomplete escape, such as `&l` of `&lt;`, at the end of a shortened text."""


def build_payload(record: Record, form: WebhookFormat, *, commit: str, branch: str, url: str) -> JsonObject:
    """Return the body of a webhook in the format `form`.

    `url` is the web address of the CI job. `commit`, `branch` and `url` are "" if they are not known.
    """
    headline = describe_verdict(record.verdict)[1]
    if form == "slack":
        return _build_slack_message(headline, list(_iter_lines(record, commit, branch)), url)
    if form == "teams":
        return _build_teams_message(headline, list(_iter_lines(record, commit, branch)), url)
    verdict, totals = record.verdict, record.totals
    return {
        "event": "evalgate.run",
        "version": VERSION,
        "headline": headline,
        "verdict": verdict.status,
        "exit_code": verdict.exit_code,
        "reasons": list(verdict.reasons),
        "cases": {
            "total": totals.cases,
            "passed": totals.passed,
            "failed": totals.failed,
            "errored": totals.errored,
            "not_evaluated": totals.not_evaluated,
        },
        "metrics": [
            {
                "name": metric.label,
                "score": metric.score,
                "threshold": metric.threshold,
                "baseline": metric.baseline,
                "status": metric.status,
                "regressed": metric.regressed,
            }
            for metric in record.metrics
        ],
        "newly_failing": _list_newly_failing(record)[:_MOST_NAMED],
        "agent": {"kind": record.agent.kind, "what": record.agent.what},
        "commit": commit,
        "branch": branch,
        "url": url,
        "created_at": record.created_at,
        "duration_s": record.duration_s,
        "evalgate_version": record.evalgate_version,
    }


def _list_newly_failing(record: Record) -> list[str]:
    """Return the names of the gating cases that are newly failing; [] if there is no baseline."""
    changes = group_changes(record, record.comparison) if record.comparison else {}
    return [f"{each.eval_set_id}/{each.eval_id}" for each in changes.get("newly_failing", ())]


def _iter_lines(record: Record, commit: str, branch: str) -> Iterator[str]:
    """Yield the lines of a message: reasons, metrics, newly failing cases, commit and branch.

    At most 20 lines are yielded before the line with commit and branch. Lines are cut after 300 characters,
    and have no invisible characters.
    """
    lines = [*record.verdict.reasons]
    for metric in record.metrics:
        then = ""
        if metric.baseline is not None:
            # With Δ, because the score may be over other cases than the baseline.
            then = f" (baseline {format_baseline(metric)}, Δ {metric.range.format_delta(metric.delta)})"
        lines.append(f"{metric.label}: {format_mean(metric)}{then}")
    if failing := _list_newly_failing(record):
        lines.append(f"Newly failing: {join_first(failing, 5)}")
    where = " of ".join(filter(None, (commit[:12], branch)))
    for line in (*lines[:_MOST_NAMED], where):
        if line:
            yield shorten_text(strip_invisible(line), _LONGEST_LINE)


def _build_slack_message(headline: str, lines: list[str], url: str) -> JsonObject:
    # Only these three have a meaning in Slack's text; without `<`, nothing mentions a person or a channel.
    def escape(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    text = _CUT_ESCAPE.sub("…", shorten_text("\n".join(map(escape, lines)), _LONGEST_TEXT))
    head = f"*{escape(headline)}*" + (f"  <{url}|Open the run>" if url else "")
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in (head, text) if part
    ]
    return {"text": escape(headline), "blocks": sections}


def _build_teams_message(headline: str, lines: list[str], url: str) -> JsonObject:
    # Text runs are shown as they are: a text block would render Markdown of names and reasons.
    parts = [(headline, {"size": "large", "weight": "bolder"}), *((line, {}) for line in lines)]
    body = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
        for text, style in parts
    ]
    actions = [{"type": "Action.OpenUrl", "title": "Open the run", "url": url}] if url else []
    card = {"type": "AdaptiveCard", "version": "1.4", "body": body, "actions": actions}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}
