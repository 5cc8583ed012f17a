"""Build the errors for requests that got no usable answer from the agent's server.

An `AgentError` with the outcome `faulted` is a fault of the environment, and is not counted against the
agent.
"""

import errno
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalgate.agents.workers.protocol import TOO_LARGE
from evalgate.core.protocols import AgentError, AgentUnreachableError
from evalgate.core.sanitize import shorten_text, to_one_line
from evalgate.core.types import RATE_LIMITED, Failure
from evalgate.system.throttling.backoff import parse_retry_after

if TYPE_CHECKING:
    from aiohttp import ClientConnectorCertificateError, ClientResponse

# OpenSSL's X509_V_ERR codes: mismatch of host and of address; not yet and no longer valid.
_WRONG_NAME, _WRONG_TIME = {62, 64}, {9, 10}
# OpenSSL's reasons for an answer in plain text, which differ by its release.
_NO_TLS_AT_ALL = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}
EXCERPT_BYTES = 8 * 1024
"""Largest number of bytes of an error answer that are shown."""
TOO_MANY_REQUESTS = 429
PROXY_AUTH_REQUIRED = 407
_TRANSIENT_STATUSES: Mapping[int, str] = {
    TOO_MANY_REQUESTS: RATE_LIMITED,
    503: "unavailable",
    529: "unavailable",  # "overloaded" of Anthropic and of proxies before it
}


def get_retry_after(response: "ClientResponse") -> float | None:
    """Return the seconds that a busy server asks to wait.

    Return None for a status other than 429, 503 and 529, or without a readable `Retry-After` header.
    """
    if response.status not in _TRANSIENT_STATUSES:
        return None
    headers = {name.lower(): value for name, value in response.headers.items()}
    return parse_retry_after(headers, time.time())


async def build_status_error(response: "ClientResponse") -> AgentError:
    """Return the error for a bad status, with an excerpt of the body, and close the response.

    The outcome is `faulted` if the server is busy or a proxy refused.
    """
    excerpt = bytearray()
    try:
        while len(excerpt) <= EXCERPT_BYTES and (piece := await response.content.read(EXCERPT_BYTES)):
            excerpt += piece
    except Exception:  # noqa: BLE001  the status is the error; its body only explains it
        excerpt += b" [broken off]"
    finally:
        response.close()
    reason = to_one_line(response.reason or "", 60)
    sentence = f"the agent answered with status {response.status} {reason}".rstrip()
    if 300 <= response.status < 400:
        # The query is left out: servers put tokens in it.
        location = to_one_line(response.headers.get("Location", "").partition("?")[0], 300)
        sentence += "; redirections are not followed: give the address that it leads to"
        sentence += f", {location}" if location else ""
    detail = shorten_text(excerpt.decode("utf-8", "replace"), EXCERPT_BYTES)
    if (busy := _TRANSIENT_STATUSES.get(response.status)) is not None:
        retry_after_s = get_retry_after(response)
        sentence += f" and asks to wait {retry_after_s:,.0f} s" if retry_after_s else ""
        return AgentError(Failure(busy, sentence, detail), "faulted", retry_after_s=retry_after_s)
    if response.status == PROXY_AUTH_REQUIRED:
        why = "the proxy wants to know who asks: it answered with status 407"
        return AgentError(Failure("proxy", why, detail), "faulted")
    return AgentError(Failure("http", sentence, detail))


def build_unavailable_error(error: BaseException) -> AgentError:
    """Return the error for a server that was not reached. Its outcome is `faulted`: the agent got nothing."""
    failure = Failure(
        "unavailable", f"the agent cannot be reached any more: {describe_connection_error(error)}"
    )
    return AgentError(failure, "faulted")


def build_certificate_error(url: str, error: "ClientConnectorCertificateError") -> AgentUnreachableError:
    """Return the error for a certificate that is not trusted. The message says what the user can do."""
    found = error.certificate_error
    code, why = getattr(found, "verify_code", 0), getattr(found, "verify_message", "") or str(found)
    if code in _WRONG_NAME:
        advice = "ask for it by a name that is in its certificate"
    elif code in _WRONG_TIME:
        advice = "it needs a new one, or this machine the right time"
    else:
        advice = "name the PEM file of those who signed it as `ca_file`"
    sentence = f"the certificate of the agent at {url} is not trusted: {to_one_line(why, 300)}; {advice}"
    return AgentUnreachableError(Failure("unreachable", sentence))


def build_connection_error(error: BaseException) -> AgentError:
    """Return the error for a connection that broke after the agent may have received the request."""
    return AgentError(
        Failure("connection", f"the connection to the agent failed: {describe_connection_error(error)}")
    )


def describe_connection_error(error: BaseException) -> str:
    """Return the reason of a connection error as one line.

    If the error has an `errno`, the reason is the operating system's text for this number.
    """
    import ssl

    import aiohttp

    if isinstance(error, aiohttp.ClientPayloadError):
        return _describe_payload_error(error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered with status {error.status} {to_one_line(error.message, 60)}".rstrip()
    if isinstance(error, aiohttp.ClientResponseError):  # its text begins with a number that is no status
        return f"the answer is not valid HTTP: {to_one_line(error.message, 300)}"
    if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):
        return "Server disconnected in the middle of its answer"  # the message is an object of aiohttp's
    system = getattr(error, "os_error", error)
    if isinstance(system, ssl.SSLError) and system.reason and "CERT" not in system.reason:
        return _describe_tls_error(system.reason)
    number = getattr(system, "errno", None)
    text = getattr(system, "strerror", None) or str(error)
    if isinstance(number, int) and number in errno.errorcode and "certificate" not in text.lower():
        text = os.strerror(number)  # asyncio's own text repeats the address
    return to_one_line(text, 300) or type(error).__name__


def _describe_tls_error(reason: str) -> str:
    """Return a clause for one of OpenSSL's error reasons, such as `WRONG_VERSION_NUMBER`."""
    words = reason.lower().replace("_", " ")
    advice = "; does it speak http://?" if reason in _NO_TLS_AT_ALL else ""
    return f"TLS failed: {words}{advice}"


def _describe_payload_error(error: BaseException) -> str:
    """Return a clause about an answer with an unreadable body: it broke off, or cannot be decompressed."""
    cause: BaseException = error.__cause__ or error
    why = getattr(cause, "message", None) or str(cause)
    # aiohttp has one error for a wrong encoding and for a missing end.
    what = "the answer cannot be unpacked" if "decode" in why.lower() else "the answer broke off"
    return f"{what}: {to_one_line(why, 300)}"


def build_too_large_error() -> AgentError:
    """Return the error for an answer that is larger than `MAX_ANSWER_BYTES`."""
    return AgentError(Failure("flood", TOO_LARGE))


def build_format_error(sentence: str, detail: str = "") -> AgentError:
    """Return the error for an answer in a wrong format; `sentence` is its message, `detail` an excerpt."""
    return AgentError(Failure("protocol", sentence, detail))


def build_unsupported_error(sentence: str) -> AgentError:
    """Return the error for a message that the dialect cannot express, as `sentence` says.

    The outcome is `faulted`: the agent is not at fault.
    """
    return AgentError(Failure("unsupported", sentence), "faulted")
