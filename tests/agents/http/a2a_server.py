"""An agent of the official A2A SDK: `python a2a_server.py RELEASE STREAMING`; prints its port."""

import socket
import sys

import uvicorn
from a2a.helpers.proto_helpers import new_data_part, new_message, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Role
from starlette.applications import Starlette


def adk(kind: str, data: dict[str, object]) -> Part:
    """Return a function call or response as Google ADK sends it over A2A."""
    part = new_data_part(data)
    part.metadata.update({"adk_type": kind})
    return part


class Agent(AgentExecutor):
    """Agent that shows the behaviour that is named in the message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer a message."""
        text, message = context.get_user_input(), context.message
        assert message is not None
        if text == "message":
            reply = new_message(
                [new_text_part("Just this.")], context_id=context.context_id, role=Role.ROLE_AGENT
            )
            await event_queue.enqueue_event(reply)
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if text == "fail":
            await updater.failed(updater.new_agent_message([new_text_part("No seats.")]))
        elif text == "draft":
            await updater.add_artifact([adk("function_call", {"name": "draft"}), new_text_part("Dear all")])
            await updater.requires_input(updater.new_agent_message([new_text_part("Send it?")]))
        elif text == "yes":
            await updater.complete(updater.new_agent_message([new_text_part("Sent.")]))
        elif text == "book":
            await updater.requires_input(updater.new_agent_message([new_text_part("Which day?")]))
        else:
            await self._work(updater, text)

    async def _work(self, updater: TaskUpdater, text: str) -> None:
        await updater.start_work(updater.new_agent_message([new_text_part("Looking.")]))
        acts = [
            adk("function_call", {"id": "1", "name": "look", "args": {"at": text}}),
            adk("function_response", {"id": "1", "name": "look", "response": {"seen": True}}),
        ]
        await updater.add_artifact([*acts, new_text_part("All ")], artifact_id="a")
        await updater.add_artifact(
            [new_text_part(f"about {text}.")], artifact_id="a", append=True, last_chunk=True
        )
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: no task takes long."""


def main() -> None:
    """Serve until killed."""
    release, streaming = sys.argv[1], sys.argv[2] == "True"
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    card = AgentCard(
        name="tiny",
        description="for tests",
        version="1",
        supported_interfaces=[
            AgentInterface(
                url=f"http://127.0.0.1:{port}/rpc", protocol_binding="JSONRPC", protocol_version=release
            )
        ],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="talk", name="talk", description="talks", tags=["talk"])],
    )
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
    ]
    print(port, flush=True)  # noqa: T201  # the test reads it
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
