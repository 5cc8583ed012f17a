"""An agent with decorated tools. It answers with the names of the tools that really ran. Runs on Python 3.9."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import threading
from typing import Any

from evalgate_host import tool

CALLED: list[str] = []


class NotFound(Exception):
    pass


@tool
def get_order(order_id: str, verbose: bool = False) -> dict[str, Any]:
    CALLED.append("get_order")
    if order_id == "404":
        raise NotFound("no such order")
    return {"order_id": order_id, "total": 9}


@tool(name="pay.back")
async def refund(amount: float, **more: Any) -> str:
    CALLED.append("pay.back")
    return f"paid {amount}"


@tool
def leak() -> object:
    return object()


def undecorated() -> str:
    CALLED.append("undecorated")
    return "done"


class Desk:
    @tool
    def look(self, where: str) -> str:
        CALLED.append("look")
        return where


async def answer(text: str, session: Any) -> str:
    try:
        found = get_order(text)
    except NotFound as error:
        return f"{type(error).__name__}: {error}; {CALLED}"
    return f"{found['total']}, {await refund(found['total'], to='card')}; {CALLED}"


def reports_undecorated(text: str, session: Any) -> str:
    session.tool_call("undecorated", {})
    return undecorated()


def in_a_thread(text: str) -> str:
    found: list[object] = []

    def work() -> None:
        try:
            found.append(get_order("5"))
        except Exception as error:  # noqa: BLE001  any error is told
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return f"{found}; {CALLED}"


def looks(text: str) -> str:
    return str(Desk().look(where=text))


def leaks(text: str) -> str:
    return str(leak())
