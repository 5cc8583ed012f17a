"""Capture of model calls in the agent's process: requests of the providers' SDKs, and OpenTelemetry spans.

Nothing is imported for it: each package is patched when the agent imports it. An event belongs to the turn in
the context of which it happens, and is sent to the gate when the turn ends. No error of the capture may reach
the agent.
"""

from __future__ import annotations

from .hooks import propagate_into_pool, propagate_into_threads, run_after_import
from .http_clients import watch_clients
from .spans import watch_providers

# The SDKs of OpenAI and Anthropic, and nearly all others, send their requests with these.
_HTTP_CLIENTS = ("httpx", "httpx2")


def install_capture() -> None:
    """Register a patch for each package that is captured, which is applied when the package is imported."""
    for name in _HTTP_CLIENTS:
        run_after_import(name, watch_clients)
    run_after_import("opentelemetry.sdk.trace", watch_providers)
    run_after_import("concurrent.futures.thread", propagate_into_pool)
    propagate_into_threads()
