"""Why there is no answer of the agent's server, and whose fault that is."""

import errno
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalgate.agents.workers.wire import TOO_LARGE
from evalgate.core.protocols import AgentFailed, AgentUnreachable
from evalgate.core.sanitize import one_line, shortened
from evalgate.core.types import RATE_LIMITED, Failure
from evalgate.throttling.rate_limiter import wanted_pause

if TYPE_CHECKING:
    from aiohttp import ClientConnectorCertificateError, ClientResponse

_WRONG_NAME, _WRONG_TIME = {62, 64}, {9, 10}
# Of X509_verify_cert_error: host and address; not yet and no longer valid.
_NO_TLS_AT_ALL = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}
# What OpenSSL says of a server that answers in plain text, by its release.
EXCERPT_BYTES = 8 * 1024
"""How much of a refusal is shown."""
TOO_FAST = 429
PROXY_REFUSES = 407
_BUSY: Mapping[int, str] = {TOO_FAST: RATE_LIMITED, 503: "unavailable", 529: "unavailable"}
# 529: Anthropic, and who passes its answers on.


def wanted_pause_of(response: "ClientResponse") -> float | None:
    """Seconds after which a busy server wants to be asked again; None when it does not."""
    if response.status not in _BUSY:
        return None
    headers = {name.lower(): value for name, value in response.headers.items()}
    return wanted_pause(headers, time.time())


async def refused(response: "ClientResponse") -> AgentFailed:
    """The failure of a bad status. A server that is busy, or whose agent is not there, says nothing of it."""
    excerpt = bytearray()
    try:
        while len(excerpt) <= EXCERPT_BYTES and (piece := await response.content.read(EXCERPT_BYTES)):
            excerpt += piece
    except Exception:  # noqa: BLE001  the status is what counts: its body is a courtesy
        excerpt += b" [broken off]"
    finally:
        response.close()
    reason = one_line(response.reason or "", 60)
    sentence = f"the agent answered with status {response.status} {reason}".rstrip()
    if 300 <= response.status < 400:
        sentence += f"; redirections are not followed: give the address that it leads to{_target(response)}"
    detail = shortened(excerpt.decode("utf-8", "replace"), EXCERPT_BYTES)
    if (busy := _BUSY.get(response.status)) is not None:
        wanted_s = wanted_pause_of(response)
        sentence += f" and wants to be left alone for {wanted_s:,.0f} s" if wanted_s else ""
        return AgentFailed(Failure(busy, sentence, detail), "faulted", retry_after_s=wanted_s)
    if response.status == PROXY_REFUSES:
        why = "the proxy wants to know who asks: it answered with status 407"
        return AgentFailed(Failure("proxy", why, detail), "faulted")
    return AgentFailed(Failure("http", sentence, detail))


def unavailable(error: BaseException) -> AgentFailed:
    """Nobody was reached: nothing was said to the agent, so nothing is known of it."""
    failure = Failure("unavailable", f"the agent cannot be reached any more: {cause_of(error)}")
    return AgentFailed(failure, "faulted")


def _target(response: "ClientResponse") -> str:
    """Without the query, in which servers hide what only one may know."""
    location = one_line(response.headers.get("Location", "").partition("?")[0], 300)
    return f", {location}" if location else ""


def distrusted(url: str, error: "ClientConnectorCertificateError") -> AgentUnreachable:
    """Why a certificate is not trusted, and what to do. It will be the same in a minute."""
    found = error.certificate_error
    code, why = getattr(found, "verify_code", 0), getattr(found, "verify_message", "") or str(found)
    if code in _WRONG_NAME:
        advice = "ask for it by a name that is in its certificate"
    elif code in _WRONG_TIME:
        advice = "it needs a new one, or this machine the right time"
    else:
        advice = "name the PEM file of those who signed it as `ca_file`"
    sentence = f"the certificate of the agent at {url} is not trusted: {one_line(why, 300)}; {advice}"
    return AgentUnreachable(Failure("unreachable", sentence))


def lost(error: BaseException) -> AgentFailed:
    """The failure of a connection that broke when the agent may have been at work."""
    return AgentFailed(Failure("connection", f"the connection to the agent failed: {cause_of(error)}"))


def cause_of(error: BaseException) -> str:
    """Why a connection failed, in the operating system's words where it has some."""
    import ssl

    import aiohttp

    if isinstance(error, aiohttp.ClientPayloadError):
        return _why_broken_off(error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered with status {error.status} {one_line(error.message, 60)}".rstrip()
    if isinstance(error, aiohttp.ClientResponseError):  # its text looks like a status, which it is not
        return f"the answer is not valid HTTP: {one_line(error.message, 300)}"
    if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):
        return "Server disconnected in the middle of its answer"  # the message is an object of aiohttp's
    system = getattr(error, "os_error", error)
    if isinstance(system, ssl.SSLError) and system.reason and "CERT" not in system.reason:
        return _why_no_tls(system.reason)
    number = getattr(system, "errno", None)
    text = getattr(system, "strerror", None) or str(error)
    if isinstance(number, int) and number in errno.errorcode and "certificate" not in text.lower():
        text = os.strerror(number)  # asyncio's own text repeats the address
    return one_line(text, 300) or type(error).__name__


def _why_no_tls(reason: str) -> str:
    """In the words of OpenSSL; its error numbers are those of other errors to the operating system."""
    words = reason.lower().replace("_", " ")
    advice = "; does it speak http://?" if reason in _NO_TLS_AT_ALL else ""
    return f"TLS failed: {words}{advice}"


def _why_broken_off(error: BaseException) -> str:
    """A body that cannot be unpacked and one that lacks its end are one error of aiohttp's."""
    cause: BaseException = error.__cause__ or error
    why = getattr(cause, "message", None) or str(cause)
    what = "the answer cannot be unpacked" if "decode" in why.lower() else "the answer broke off"
    return f"{what}: {one_line(why, 300)}"


def flood() -> AgentFailed:
    """Return the failure of an answer that is larger than any may be."""
    return AgentFailed(Failure("flood", TOO_LARGE))
