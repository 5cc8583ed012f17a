"""Classify the error responses of OpenAI-compatible endpoints by their texts and HTTP statuses."""

import json
import re
from collections.abc import Mapping

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line
from evalgate.llm.errors import FailureKind, JudgeError
from evalgate.system.throttling.backoff import parse_retry_after


@frozen
class ErrorResponse:
    """A provider's error response, with the key redacted."""

    status: int
    headers: Mapping[str, str]
    """Headers with names in lower case."""
    text: str


# The body of an error decides before its HTTP status: Google sends 400 for a wrong key, OpenAI 429 for an
# empty account. The patterns are searched in the error's code, type and message, ignoring case.
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
"""Regular expressions for each kind of failure."""

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

_DESCRIPTIONS: Mapping[FailureKind, str] = {
    "refused": "the provider refused to answer",
    "outage": "the provider failed",
    "rate_limited": "the provider is asked too often",
    "no_credit": "the account of the key has no credit left",
    "wrong_key": "the provider does not accept the key",
    "unknown_model": "the provider does not know the model, or has nothing at this address",
    "too_long": "the question is longer than the model can read",
    "rejected": "the provider does not accept the request",
}


def build_judge_error(refusal: ErrorResponse, where: str, wall: float) -> JudgeError:
    """Build the JudgeError, with kind and advice, for a provider's error response.

    `where` is the name of the model for the message. `wall` is the current time in seconds since the epoch,
    to compute the pause if the header `Retry-After` has a date.
    """
    kind = _classify_response(refusal)
    # A provider's message about a wrong key may repeat a part of the key.
    detail = "" if kind == "wrong_key" else to_one_line(_extract_message(refusal.text), 200)
    status = f"HTTP {refusal.status}" if refusal.status != 200 else "an error in its answer"
    message = f"{where}: {_DESCRIPTIONS[kind]} ({status}{': ' if detail else ''}{detail.rstrip('.')})"
    pause = parse_retry_after(refusal.headers, wall) if kind in {"outage", "rate_limited"} else None
    return JudgeError(kind, message, retry_after=pause)


def _classify_response(refusal: ErrorResponse) -> FailureKind:
    if refusal.status >= 500:
        return "outage"
    words = _extract_error_words(refusal.text)
    for kind, patterns in _BY_WORDS.items():
        # Google says "You exceeded your current quota" when the caller should wait a minute. For HTTP 429
        # only the codes of an empty account are reliable.
        is_possible = refusal.status != 429 or kind == "no_credit"
        if is_possible and re.search("|".join(patterns), words, re.IGNORECASE):
            return kind
    return _BY_STATUS.get(refusal.status, "rejected" if refusal.status >= 400 else "outage")


def _parse_error(text: str) -> object:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    body = body[0] if isinstance(body, list) and body else body  # Google's endpoint sends a list
    if not isinstance(body, dict):
        return None
    return body.get("error", body)


def _extract_message(text: str) -> str:
    error = _parse_error(text)
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else text if error is None else json.dumps(error)


def _extract_error_words(text: str) -> str:
    error = _parse_error(text)
    if not isinstance(error, dict):
        return text[:2000]
    named = [error.get(name) for name in ("code", "type", "status", "message")]
    inner = error.get("innererror")
    named.append(inner.get("code") if isinstance(inner, dict) else None)
    return " ".join(str(each) for each in named if each is not None)[:2000]
