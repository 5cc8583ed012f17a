"""An agent that says which packages it can import."""

import importlib


def answer(text: str) -> str:
    """For "can you import six": yes or no."""
    try:
        importlib.import_module(text.rsplit(maxsplit=1)[-1])
    except ImportError:
        return "no"
    return "yes"
