"""An error response of a provider → what kind of failure it is."""

import json
import re
from collections.abc import Mapping

from evalgate.frozen import frozen
from evalgate.hostile import one_line
from evalgate.judge.failures import FailureKind, JudgeFailed
from evalgate.pacing.pauses import wanted_pause


@frozen
class Refusal:
    """What the provider sent instead of an answer, without the key."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str


# What the body says goes before the status, because providers differ in the latter: Google sends 400 for a
# wrong key, OpenAI 429 for an empty account. Looked for in code, type and message, upper or lower case.
_BY_WORDS: Mapping[FailureKind, tuple[str, ...]] = {
    "no_credit": ("insufficient_quota", "insufficient.balance", "credit balance", "billing_hard_limit"),
    "wrong_key": ("invalid_api_key", "API key not valid", "API_KEY_INVALID", "incorrect api key"),
    "too_long": (
        "context_length_exceeded",
        "maximum context length",
        "context window",
        "prompt is too long",
        "input token count.{0,40}exceeds",
        "request_too_large",
    ),
    "refused": ("content_filter", "content_policy", "ResponsibleAIPolicy", "data_inspection_failed"),
    "unknown_model": (
        "model_not_found",
        "DeploymentNotFound",
        "model.{0,80}(does not exist|not found)",
        "invalid_model",
        "unknown model",
    ),
}
"""Patterns of `re`."""

_BY_STATUS: Mapping[int, FailureKind] = {
    401: "wrong_key",
    402: "no_credit",
    403: "wrong_key",
    404: "unknown_model",
    408: "outage",
    409: "outage",
    413: "too_long",
    425: "outage",
    429: "rate_limited",
}

_SAID: Mapping[FailureKind, str] = {
    "refused": "the provider refused to answer",
    "outage": "the provider failed",
    "rate_limited": "the provider is asked too often",
    "no_credit": "the account of the key has no credit left",
    "wrong_key": "the provider does not accept the key",
    "unknown_model": "the provider does not know the model, or has nothing at this address",
    "too_long": "the question is longer than the model can read",
    "rejected": "the provider does not accept the request",
}


def failure_of(refusal: Refusal, where: str, wall: float) -> JudgeFailed:
    """The failure that a response tells of. `where` names the model, `wall` is the time since the epoch."""
    kind = _kind(refusal)
    # What a provider says of a wrong key may repeat it in part.
    said = "" if kind == "wrong_key" else one_line(_message(refusal.text), 200)
    status = f"HTTP {refusal.status}" if refusal.status != 200 else "an error in its answer"
    message = f"{where}: {_SAID[kind]} ({status}{': ' if said else ''}{said.rstrip('.')})"
    pause = wanted_pause(refusal.headers, wall) if kind in {"outage", "rate_limited"} else None
    return JudgeFailed(kind, message, retry_after=pause)


def _kind(refusal: Refusal) -> FailureKind:
    if refusal.status >= 500:
        return "outage"
    words = _words(refusal.text)
    for kind, patterns in _BY_WORDS.items():
        # "You exceeded your current quota" is how Google says to wait a minute; only the codes are sure.
        is_possible = refusal.status != 429 or kind == "no_credit"
        if is_possible and re.search("|".join(patterns), words, re.IGNORECASE):
            return kind
    return _BY_STATUS.get(refusal.status, "rejected" if refusal.status >= 400 else "outage")


def _error(text: str) -> object:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    body = body[0] if isinstance(body, list) and body else body  # Google's endpoint sends a list
    if not isinstance(body, dict):
        return None
    return body.get("error", body)


def _message(text: str) -> str:
    error = _error(text)
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else text if error is None else json.dumps(error)


def _words(text: str) -> str:
    error = _error(text)
    if not isinstance(error, dict):
        return text[:2000]
    named = [error.get(name) for name in ("code", "type", "status", "message")]
    inner = error.get("innererror")
    named.append(inner.get("code") if isinstance(inner, dict) else None)
    return " ".join(str(each) for each in named if each is not None)[:2000]
