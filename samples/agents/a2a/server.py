"""An agent of the official A2A SDK: `python server.py PORT`."""

import sys

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

FORECASTS = {"Paris": "sunny", "Oslo": "snow"}


class Weather(AgentExecutor):
    """Asks back until it knows the city, and remembers it while the conversation lasts."""

    def __init__(self):
        self.cities = {}

    async def execute(self, context, event_queue):
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = context.get_user_input()
        city = next((city for city in FORECASTS if city in text), self.cities.get(task.context_id))
        if city is None:
            await updater.requires_input(updater.new_agent_message([new_text_part("Which city?")]))
            return
        self.cities[task.context_id] = city
        await updater.add_artifact([new_text_part(f"{city}: {FORECASTS[city]}.")])
        await updater.complete()

    async def cancel(self, context, event_queue):
        """Nothing takes long."""


def app(url):
    """The card and the JSON-RPC endpoint."""
    card = AgentCard(
        name="weather",
        description="Forecasts the weather",
        version="1",
        supported_interfaces=[
            AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="forecast", name="forecast", description="forecasts", tags=["weather"])],
    )
    handler = DefaultRequestHandler(agent_executor=Weather(), task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])


if __name__ == "__main__":
    port = int(sys.argv[1])
    uvicorn.run(app(f"http://127.0.0.1:{port}"), host="127.0.0.1", port=port, log_level="warning")
