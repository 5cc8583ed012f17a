"""The agent of the guide's full example; its module has a member `agent`, as Google's class asks."""

from types import SimpleNamespace

from google.adk.agents import LlmAgent

from my_package.scripted import Scripted, answers, asked


def convert_temperature(value: int, from_unit: str, to_unit: str) -> dict[str, object]:
    """Converts a temperature."""
    return {"value": 37.78}


def book_flight(destination: str, date: str) -> dict[str, object]:
    """Books a flight."""
    return {"booked": destination}


def _script(request: object) -> list[object]:
    said, found = asked(request), answers(request)
    if said.startswith("Convert"):
        call = ("convert_temperature", {"value": 100, "from_unit": "F", "to_unit": "C"})
        return ["37.78"] if found else [call]
    if said.startswith("Book"):
        return ["Which date would you like to travel?"]
    if said.startswith("June"):
        call = ("book_flight", {"destination": "Paris", "date": "2026-06-15"})
        return ["Done! Flight booked for June 15th to Paris."] if found else [call]
    return ["I do not know."]


async def get_agent_async() -> LlmAgent:
    tools = [convert_temperature, book_flight]
    return LlmAgent(name="travel", model=Scripted(script=_script), tools=tools)


agent = SimpleNamespace(get_agent_async=get_agent_async)
