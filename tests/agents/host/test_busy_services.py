"""Detection of busy and unavailable services in the exceptions of SDKs."""

from collections.abc import Mapping
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from evalgate.agents.host.busy_services import classify_transient_error
from evalgate.agents.host.errors import build_error_fields


class Foreign(Exception):
    """An exception of some SDK, with any attributes."""

    def __init__(self, **kept: Any) -> None:
        super().__init__("slow down")
        vars(self).update(kept)


def an_openai_error(status: int, headers: Mapping[str, str]) -> Exception:
    response = SimpleNamespace(status_code=status, headers=headers, request=None)
    error: Exception = openai.RateLimitError.__new__(openai.RateLimitError)
    Exception.__init__(error, "too many requests")
    vars(error).update(status_code=status, response=response, code="rate_limit_exceeded")
    return error


def caused_by(cause: BaseException) -> Exception:
    error = ValueError("no plan")
    error.__cause__ = cause
    return error


def wrapped(status: int, cause: BaseException) -> Exception:
    error = Foreign(status_code=status)
    error.__cause__ = cause
    return error


def a_retry_info(delay: object) -> dict[str, Any]:
    """Return the body of Google's answer to a request above the limit."""
    kind = "type.googleapis.com/google.rpc."
    details = [{"@type": f"{kind}QuotaFailure"}, {"@type": f"{kind}RetryInfo", "retryDelay": delay}]
    return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}}


def met_while_handling(other: Exception) -> Exception:
    error = KeyError("key")
    error.__context__ = other
    return error


class Broken(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("never read me")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (an_openai_error(429, {"retry-after": "20"}), ("rate_limited", 20.0)),
        (an_openai_error(429, {"retry-after-ms": "1500", "retry-after": "2"}), ("rate_limited", 1.5)),
        (Foreign(status_code=503), ("unavailable", None)),
        (Foreign(status_code=529), ("unavailable", None)),
        (Foreign(code=429), ("rate_limited", None)),
        (Foreign(code=HTTPStatus.SERVICE_UNAVAILABLE), ("unavailable", None)),
        (Foreign(status=429, headers={"Retry-After": "3"}), ("rate_limited", 3.0)),
        (
            Foreign(response=SimpleNamespace(status_code=429, headers={"Retry-After": "x"})),
            ("rate_limited", None),
        ),
        (Foreign(response={"ResponseMetadata": {"HTTPStatusCode": 429}}), ("rate_limited", None)),
        (Foreign(code=lambda: SimpleNamespace(name="RESOURCE_EXHAUSTED")), ("rate_limited", None)),
        (Foreign(code="UNAVAILABLE"), ("unavailable", None)),
        (Foreign(status_code=429, retry_after=4), ("rate_limited", 4.0)),
        (Foreign(status_code=429, retry_after=float("nan")), ("rate_limited", None)),
        (caused_by(Foreign(status_code=429)), ("rate_limited", None)),
        (
            wrapped(429, an_openai_error(429, {"retry-after": "20"})),
            ("rate_limited", 20.0),
        ),
        (wrapped(429, Foreign(status_code=429)), ("rate_limited", None)),
        (Foreign(code=429, details=a_retry_info("37s")), ("rate_limited", 37.0)),
        (Foreign(code=429, details=a_retry_info("0.5s")["error"]), ("rate_limited", 0.5)),
        (Foreign(code=429, details=a_retry_info("soon")), ("rate_limited", None)),
        (Foreign(code=429, details=a_retry_info(37)), ("rate_limited", None)),
        (Foreign(code=429, details={"error": "no"}), ("rate_limited", None)),
        (Foreign(code=429, details="no"), ("rate_limited", None)),
        (ExceptionGroup("tasks", [Foreign(code=503)]), ("unavailable", None)),
        (ExceptionGroup("tasks", [Foreign(code=503), ValueError()]), None),
        (met_while_handling(Foreign(status_code=429)), None),
        (Foreign(status_code=500), None),
        (Foreign(status_code="429"), None),
        (Foreign(code=True), None),
        (ValueError("429"), None),
        (Broken(), None),
    ],
)
def test_kind_and_retry_after_of_a_busy_service(
    error: BaseException, found: tuple[str, float | None] | None
) -> None:
    assert classify_transient_error(error) == found


def test_retry_after_may_be_a_date() -> None:
    past = Foreign(status_code=429, headers={"Retry-After": "Fri, 20 Nov 2020 00:00:00 GMT"})
    assert classify_transient_error(past) == ("rate_limited", 0.0)


def test_error_message_of_a_busy_service() -> None:
    described = build_error_fields(Foreign(status_code=429, retry_after=4))
    assert described.pop("traceback")
    assert described == {
        "kind": "rate_limited",
        "message": "a service limits how often the agent may ask: Foreign: slow down",
        "retry_after_s": 4.0,
    }


def test_error_that_is_its_own_cause_is_searched_once() -> None:
    error = ValueError("round")
    error.__cause__ = error
    assert classify_transient_error(error) is None
