"""A traced agent, one process for each turn: the message on stdin, the answer on stdout, spans to the collector.

The spans are written by hand here. Instrumentation for your framework or model client writes the same.
"""

import json
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

FORECASTS = {"Paris": "sunny", "Oslo": "snow"}

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))  # where to: OTEL_EXPORTER_OTLP_ENDPOINT
tracer = provider.get_tracer("weather")


def get_forecast(city):
    with tracer.start_as_current_span("execute_tool get_forecast") as span:
        found = {"forecast": FORECASTS[city]}
        span.set_attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_forecast",
                "gen_ai.tool.call.arguments": json.dumps({"city": city}),
                "gen_ai.tool.call.result": json.dumps(found),
            }
        )
        return found


def answer(text):
    with tracer.start_as_current_span("invoke_agent weather") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"})
        city = next((city for city in FORECASTS if city in text), None)
        return f"{city}: {get_forecast(city)['forecast']}." if city else "Which city?"


print(answer(sys.stdin.read()))
provider.shutdown()  # sends what is left
