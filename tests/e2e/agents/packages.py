"""An agent that answers if it can import a package."""

import importlib


def answer(text: str) -> str:
    """Answer a question such as "can you import six" with yes or no."""
    try:
        importlib.import_module(text.rsplit(maxsplit=1)[-1])
    except ImportError:
        return "no"
    return "yes"
