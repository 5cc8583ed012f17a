"""Capture of model calls in the agent's process: requests of the providers' SDKs, and OpenTelemetry spans.

No package is imported for the capture: a package is patched when the agent imports it. A context variable
holds the current turn: events of the running code are recorded in this turn. They are sent to the gate when
the turn ends. No error of the capture may reach the agent.
"""

from __future__ import annotations

from .hooks import propagate_into_pool, propagate_into_threads, run_after_import
from .http_clients import watch_clients
from .spans import watch_providers

# The SDKs of OpenAI and Anthropic, and nearly all others, send their requests with these.
_HTTP_CLIENTS = ("httpx", "httpx2")


def install_capture() -> None:
    """Patch `threading` now; patch httpx, httpx2, OpenTelemetry and thread pools when they are imported."""
    for name in _HTTP_CLIENTS:
        run_after_import(name, watch_clients)
    run_after_import("opentelemetry.sdk.trace", watch_providers)
    run_after_import("concurrent.futures.thread", propagate_into_pool)
    propagate_into_threads()
