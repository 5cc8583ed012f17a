"""Capture of what an agent's own packages tell: HTTP calls of the providers' SDKs, and OpenTelemetry spans.

Nothing is imported for it: each package is patched when the agent imports it. What is captured belongs to the
turn in whose context it happens, and is handed to the gate when the turn ends. Nothing that fails in here may
reach the agent.
"""

from __future__ import annotations

from .hooks import propagate_into_pool, propagate_into_threads, run_after_import
from .http_clients import watch_clients
from .spans import watch_providers

_HTTP_CLIENTS = ("httpx", "httpx2")
# What the SDKs of OpenAI and Anthropic, and nearly all others, send their requests with.


def install_capture() -> None:
    """Watch every package that can tell something, from the moment in which it is imported."""
    for name in _HTTP_CLIENTS:
        run_after_import(name, watch_clients)
    run_after_import("opentelemetry.sdk.trace", watch_providers)
    run_after_import("concurrent.futures.thread", propagate_into_pool)
    propagate_into_threads()
