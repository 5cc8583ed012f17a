"""What the agent in the file names: a model and a tool."""

from scripted import Scripted, answers, asked


def get_order(order_id: str) -> dict:
    """Look an order up."""
    return {"order_id": order_id, "status": "shipped"}


def _script(request):
    if found := answers(request):
        return [f"It is {found[0]['status']}."]
    return [("get_order", {"order_id": "5"})] if "order" in asked(request) else ["written"]


MODEL = Scripted(script=_script)
CLERK = Scripted(script=lambda _: ["the clerk"])
