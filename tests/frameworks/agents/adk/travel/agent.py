"""A coordinator with sub-agents and a pipeline, of the structure of Google's travel-concierge sample."""

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models.llm_request import LlmRequest
from scripted import Scripted, answers, asked


def book_flight(city: str) -> dict[str, str]:
    """Books."""
    return {"booked": city}


def _coordinator(request: LlmRequest) -> object:
    if "flight" in asked(request):
        return [("transfer_to_agent", {"agent_name": "booking"})]
    if "essay" in asked(request):
        return ["I ask the writers.", ("transfer_to_agent", {"agent_name": "writers"})]
    return ["Where to?"]


def _booking(request: LlmRequest) -> object:
    found = [each for each in answers(request) if "booked" in each]
    return [f"Your flight to {found[0]['booked']} is booked."] if found else [("book_flight", {"city": "Rome"})]


booking = LlmAgent(name="booking", description="Books.", model=Scripted(script=_booking), tools=[book_flight])
outline = LlmAgent(name="outline", model=Scripted(script=lambda _: ["Rome, Oslo"]), output_key="outline")
draft = LlmAgent(
    name="draft",
    model=Scripted(script=lambda request: ["An essay on " + (request.config.system_instruction or "").split("about ")[1].split("\n")[0]]),
    instruction="Write about {outline}",
    output_key="draft",
)
writers = SequentialAgent(name="writers", description="Write.", sub_agents=[outline, draft])

root_agent = LlmAgent(name="travel", model=Scripted(script=_coordinator), sub_agents=[booking, writers])
