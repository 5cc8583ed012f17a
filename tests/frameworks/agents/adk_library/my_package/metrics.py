"""The metric of the guide."""


def my_length_metric(
    actual_invocation,
    expected_invocation,
    criterion,
) -> float:
    """Returns 1.0 if the response is ≤ 100 chars, else 0.0."""
    if not actual_invocation.final_response:
        return 0.0
    text = "".join(
        p.text or "" for p in actual_invocation.final_response.parts or []
    )
    return 1.0 if len(text) <= 100 else 0.0
