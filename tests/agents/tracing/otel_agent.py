"""An agent that knows nothing of evalgate and is traced by OpenTelemetry's own SDK: `otel_agent.py TURN|SERVE`."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PROVIDER = TracerProvider()
PROVIDER.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(compression=Compression.Gzip)))
TRACER = PROVIDER.get_tracer("tiny")


def answer(text: str, context: Context | None = None) -> str:
    with TRACER.start_as_current_span("invoke_agent", context) as agent:
        agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner"})
        with TRACER.start_as_current_span("chat m") as chat:
            chat.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 2,
                }
            )
        with TRACER.start_as_current_span("execute_tool look") as tool:
            tool.set_attributes(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "look",
                    "gen_ai.tool.call.id": "1",
                    "gen_ai.tool.call.arguments": json.dumps({"at": text}),
                    "gen_ai.tool.call.result": json.dumps({"seen": True}),
                }
            )
    return f"saw {text}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send(b"{}")

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        context = TraceContextTextMapPropagator().extract({"traceparent": self.headers["traceparent"]})
        self.send(json.dumps({"response": answer(text, context)}).encode())

    def send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print no log line for a request."""


def main() -> None:
    trace.set_tracer_provider(PROVIDER)
    if sys.argv[1] == "TURN":
        sys.stdout.write(answer(sys.stdin.read()))
        PROVIDER.shutdown()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
