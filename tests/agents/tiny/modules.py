"""An agent that answers with the names of the modules that are loaded in its process."""

import sys


async def loaded(text: str) -> str:
    return " ".join(sys.modules)
