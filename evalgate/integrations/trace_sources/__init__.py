"""Traces that tracing tools recorded in production, from files and from the tools' APIs."""
