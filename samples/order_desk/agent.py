"""A small support agent. Its "model" is scripted, so that the sample needs no key: it obeys prompt.txt."""

import re
from pathlib import Path

ORDERS = {
    "1001": {"status": "delivered", "days_ago": 4, "total": 25.0},
    "1002": {"status": "on its way", "days_ago": 1, "total": 80.0},
    "1003": {"status": "delivered", "days_ago": 45, "total": 12.5},
}

PROMPT = Path(__file__).with_name("prompt.txt").read_text(encoding="utf-8")


def answer(text, session):
    """One turn of the conversation. `session` remembers state and reports the tools that are used."""
    found = re.search(r"\d{4}", text)
    order_id = found[0] if found else session.state.get("order_id")
    if "refund" in text.lower():
        session.state["wants_refund"] = True
    if order_id is None:
        return "Which order is it? Please tell me its number."
    session.state["order_id"] = order_id
    if session.state.get("wants_refund"):
        return refund(order_id, session)
    order = lookup_order(order_id, session)
    return f"Order {order_id} is {order['status']}."


def refund(order_id, session):
    if "look the order up" in PROMPT:
        order = lookup_order(order_id, session)
        if order["days_ago"] > 30:
            return f"Order {order_id} is older than 30 days, so it cannot be refunded."
    amount = ORDERS[order_id]["total"]
    session.tool_call("issue_refund", {"order_id": order_id, "amount": amount})
    session.tool_result("issue_refund", {"ok": True})
    return f"I have refunded {amount:.2f} for order {order_id}."


def lookup_order(order_id, session):
    session.tool_call("lookup_order", {"order_id": order_id})
    session.tool_result("lookup_order", ORDERS[order_id])
    return ORDERS[order_id]
