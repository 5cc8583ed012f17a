"""What every agent of the matrix does, whatever it is built with. Standard library only."""


class Crash(Exception):
    """The agent falls over in this turn."""


class Hang(Exception):
    """The agent never answers in this turn."""


def act(said, found=None):
    """What comes of a turn: the response, or the name and arguments of the tool that is called first.

    `said` is all that the user said, `found` what the tool has answered in this turn.
    """
    asked = said[-1]
    if found is not None:
        return f"Paris: {found['forecast']}."
    if asked == "Crash.":
        raise Crash
    if asked == "Hang.":
        raise Hang
    if asked == "Will it rain in Paris?":
        return ("get_forecast", {"city": "Paris"})
    if asked == "Where do I live?":
        return next((f"In {city}." for text in said if (city := city_in(text))), "I do not know.")
    return "Noted." if city_in(asked) else "Hello."


def city_in(text):
    """Where the user says to live."""
    return text.removeprefix("I live in ").rstrip(".") if text.startswith("I live in ") else None


def get_forecast(city: str) -> dict:
    """The forecast for a city."""
    return {"forecast": "sunny"}
