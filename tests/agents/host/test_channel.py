"""The transport of messages between the host and the gate."""

import asyncio
import os

import pytest

from evalgate.agents.host.channel import Channel

MESSAGES = '{"type":"hello"}\n\n{"type":"turn","text":"ß and 💶"}\n{"type":"end"}\n'.encode()


@pytest.mark.parametrize("size", [1, 3, 18, 1000])
def test_messages_may_arrive_in_parts_of_any_size(size: int) -> None:
    received: list[dict[str, object]] = []

    async def read_all() -> None:
        theirs, ours = os.pipe()
        channel = Channel(asyncio.get_running_loop(), theirs, ours)
        channel.open(received.append)
        for start in range(0, len(MESSAGES), size):
            os.write(ours, MESSAGES[start : start + size])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        asyncio.get_running_loop().remove_reader(theirs)
        os.close(theirs)
        os.close(ours)

    asyncio.run(read_all())

    assert received == [{"type": "hello"}, {"type": "turn", "text": "ß and 💶"}, {"type": "end"}]
