"""Detection of busy services by the agent's exceptions: HTTP 429, 503 and 529, and gRPC's equivalents.

The exceptions of the providers' SDKs have no common base class, but all hold the HTTP status: openai and
anthropic in `status_code`, google in `code`, aiohttp in `status`, httpx and requests in `response`, botocore
in a dict `response`. gRPC has its own status in a method `code`. No SDK is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

RATE_LIMITED = "rate_limited"
UNAVAILABLE = "unavailable"

_KINDS = {429: RATE_LIMITED, 503: UNAVAILABLE, 529: UNAVAILABLE}  # 529: Anthropic is overloaded
_GRPC = {"RESOURCE_EXHAUSTED": RATE_LIMITED, "UNAVAILABLE": UNAVAILABLE}
# Causes can form a cycle.
_MAX_CAUSES = 8


def classify_transient_error(error: BaseException) -> tuple[str, float | None] | None:
    """Return (kind, delay) for an error of a busy service; None for any other error.

    The kind is `rate_limited` or `unavailable`. The delay is the service's Retry-After in seconds, or None if
    the service sent none.

    The causes of `error` (`raise … from`) are searched as well, up to 8 errors in all. If an exception group
    has one member, the member counts as its cause. `__context__` is not searched, because it may be an
    unrelated exception.
    """
    try:
        for depth, each in enumerate(reasons := list(_iter_causes(error))):
            kind = _find_kind(each)
            if kind is not None:
                # A framework wraps the SDK's error and copies only its status: the header is in a cause.
                wanted = (_find_retry_after(below) for below in reasons[depth:])
                return kind, next((pause for pause in wanted if pause is not None), None)
    except Exception:  # noqa: BLE001  properties of foreign objects may raise anything
        return None
    return None


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield current
        current = _get_cause(current)


def _get_cause(error: BaseException) -> BaseException | None:
    """Return the exception that caused `error`; None if there is none.

    For an exception group with one member, this is the member; for any other error, its `__cause__`.
    """
    members = getattr(error, "exceptions", None)
    # `asyncio.TaskGroup` wraps even a single failure. Of several, none is the cause of the others.
    if isinstance(members, (list, tuple)) and len(members) == 1 and isinstance(members[0], BaseException):
        return members[0]
    return error.__cause__


def _find_kind(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    for owner in (error, response):
        for name in ("status_code", "code", "status"):
            found = _map_status(getattr(owner, name, None))
            if found is not None:
                return found
    if isinstance(response, dict):
        metadata = response.get("ResponseMetadata")
        return _map_status(metadata.get("HTTPStatusCode")) if isinstance(metadata, dict) else None
    return None


def _map_status(status: Any) -> str | None:
    if callable(status):
        status = status()
    if isinstance(status, int):
        return _KINDS.get(int(status))
    name = getattr(status, "name", status)
    return _GRPC.get(name) if isinstance(name, str) else None


def _find_retry_after(error: BaseException) -> float | None:
    own = _parse_seconds(getattr(error, "retry_after", None))
    if own is not None:
        return own
    for owner in (getattr(error, "response", None), error):
        headers = getattr(owner, "headers", None)
        get = getattr(headers, "get", None)
        if get is None:
            continue
        # OpenAI and Azure send this header too, and their SDK prefers it: Retry-After has whole seconds only.
        milliseconds = _parse_seconds(get("retry-after-ms"))
        if milliseconds is not None:
            return milliseconds / 1000
        text = get("retry-after") or get("Retry-After")
        seconds = _parse_seconds(text)
        found = _parse_date_delay(text) if seconds is None and isinstance(text, str) else seconds
        if found is not None:
            return found
    return _read_retry_delay(getattr(error, "details", None))


def _read_retry_delay(details: Any) -> float | None:
    """Return the delay in seconds of the first `google.rpc.RetryInfo`; None if there is none.

    Google's APIs send this delay only in the body of an answer, as `{"retryDelay": "37s"}`.

    Args:
        details: Body of an answer, or the list of details in it.
    """
    if isinstance(details, dict):
        error = details.get("error", details)
        details = error.get("details") if isinstance(error, dict) else None
    for each in details if isinstance(details, (list, tuple)) else ():
        delay = each.get("retryDelay") if isinstance(each, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _parse_seconds(delay[:-1])
    return None


def _parse_seconds(value: Any) -> float | None:
    if not isinstance(value, (str, int, float)):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _parse_date_delay(date: str) -> float | None:
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
