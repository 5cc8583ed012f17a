"""What agents tell through OpenTelemetry: spans of the GenAI conventions, read into what was done and said.

`spans.Span` is one span from anywhere, `genai` reads spans as a transcript, `otlp` and `jaeger` read files
and requests, `traced` gives a running agent a place to send its spans to.
"""
