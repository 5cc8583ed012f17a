"""Tells which modules are loaded in its process."""

import sys


async def loaded(text: str) -> str:
    return " ".join(sys.modules)
