"""A custom metric that needs Google's own types."""

import evalgate

turn = {
    "query": "What's the weather?",
    "reference": "It's currently 18°C and partly cloudy.",
    "expected_tool_use": [{"tool_name": "get_weather", "tool_input": {"city": "London"}}],
}
record = evalgate.evaluate(
    [turn],
    "adk:my_package",
    thresholds={
        "criteria": {"calls": {"threshold": 1.0, "match_type": "IN_ORDER"}},
        "custom_metrics": {"calls": "my_package.google_metrics.match_calls"},
    },
)
[run] = record.cases[0].runs
print(run.metrics[0].score, run.metrics[0].status, run.turns[0].metrics[0].score)
