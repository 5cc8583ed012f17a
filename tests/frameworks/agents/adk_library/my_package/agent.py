"""The agent that the examples of Google's guide evaluate, with a scripted model."""

from google.adk.agents import LlmAgent

from my_package.scripted import Scripted, answers, asked


def get_weather(city: str) -> dict[str, object]:
    """Tells the weather."""
    return {"city": city, "degrees": 18}


def _script(request: object) -> list[object]:
    said = asked(request)
    if "15 + 27" in said:
        return ["42"]
    if "weather" in said and not answers(request):
        return [("get_weather", {"city": "London"})]
    if "weather" in said:
        return ["It's currently 18°C and partly cloudy."]
    return ["I do not know."]


specialist = LlmAgent(name="specialist_bot", model=Scripted(script=lambda request: ["I am special."]))
root_agent = LlmAgent(
    name="root", model=Scripted(script=_script), tools=[get_weather], sub_agents=[specialist]
)
