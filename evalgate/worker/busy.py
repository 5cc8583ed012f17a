"""Whether an exception says that somebody whom the agent asked is busy or down, whatever package it is of.

SDKs of providers have no common base class, but all keep the HTTP status: openai and anthropic as
`status_code`, google as `code`, aiohttp as `status`, httpx and requests in `response`, botocore in a dict of
that name, gRPC as a function `code`. None of them is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

RATE_LIMITED = "rate_limited"
UNAVAILABLE = "unavailable"

_KINDS = {429: RATE_LIMITED, 503: UNAVAILABLE, 529: UNAVAILABLE}  # 529: Anthropic is overloaded
_GRPC = {"RESOURCE_EXHAUSTED": RATE_LIMITED, "UNAVAILABLE": UNAVAILABLE}
_MAX_CAUSES = 8


def passing_fault(error: BaseException) -> tuple[str, float | None] | None:
    """The reserved kind of the failure and the seconds that the provider wants; None: it is the agent's own.

    What an error was raised `from` counts; what was merely being handled when it was raised does not.
    """
    try:
        for depth, each in enumerate(reasons := list(_reasons(error))):
            kind = _kind(each)
            if kind is not None:
                # A framework wraps what the provider's SDK raised, and keeps the status alone.
                wanted = (_wanted_pause(below) for below in reasons[depth:])
                return kind, next((pause for pause in wanted if pause is not None), None)
    except Exception:  # noqa: BLE001  properties of foreign objects may raise anything
        return None
    return None


def _reasons(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield current
        current = _reason(current)


def _reason(error: BaseException) -> BaseException | None:
    """What the error was raised from; the only member of a group."""
    members = getattr(error, "exceptions", None)
    if isinstance(members, (list, tuple)) and len(members) == 1 and isinstance(members[0], BaseException):
        return members[0]
    return error.__cause__


def _kind(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    for owner in (error, response):
        for name in ("status_code", "code", "status"):
            found = _kind_of(getattr(owner, name, None))
            if found is not None:
                return found
    if isinstance(response, dict):
        metadata = response.get("ResponseMetadata")
        return _kind_of(metadata.get("HTTPStatusCode")) if isinstance(metadata, dict) else None
    return None


def _kind_of(status: Any) -> str | None:
    if callable(status):
        status = status()
    if isinstance(status, int):
        return _KINDS.get(int(status))
    name = getattr(status, "name", status)
    return _GRPC.get(name) if isinstance(name, str) else None


def _wanted_pause(error: BaseException) -> float | None:
    own = _seconds(getattr(error, "retry_after", None))
    if own is not None:
        return own
    for owner in (getattr(error, "response", None), error):
        headers = getattr(owner, "headers", None)
        get = getattr(headers, "get", None)
        if get is None:
            continue
        milliseconds = _seconds(get("retry-after-ms"))
        if milliseconds is not None:
            return milliseconds / 1000
        text = get("retry-after") or get("Retry-After")
        seconds = _seconds(text)
        found = _until(text) if seconds is None and isinstance(text, str) else seconds
        if found is not None:
            return found
    return _retry_delay(getattr(error, "details", None))


def _retry_delay(details: Any) -> float | None:
    """What Google's APIs say in the body alone: `google.rpc.RetryInfo`, as `{"retryDelay": "37s"}`."""
    if isinstance(details, dict):
        error = details.get("error", details)
        details = error.get("details") if isinstance(error, dict) else None
    for each in details if isinstance(details, (list, tuple)) else ():
        delay = each.get("retryDelay") if isinstance(each, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _seconds(delay[:-1])
    return None


def _seconds(value: Any) -> float | None:
    if not isinstance(value, (str, int, float)):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(date: str) -> float | None:
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
