"""A Python agent; evalgate's worker hosts it in the container."""

FORECASTS = {"Paris": "sunny", "Oslo": "snow"}


async def answer(text, session):
    city = next((city for city in FORECASTS if city in text), session.state.get("city"))
    if city is None:
        return "Which city?"
    session.state["city"] = city
    session.tool_call("get_forecast", {"city": city}, id="1")
    session.tool_result("get_forecast", {"forecast": FORECASTS[city]}, id="1")
    return f"{city}: {FORECASTS[city]}."
