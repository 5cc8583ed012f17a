"""Agents of real frameworks, gated in interpreters that have them.

Nothing of a framework is ever installed beside evalgate: each has a virtual environment of its own, which is built
on first use and kept in the user's cache.
"""

from pathlib import Path

AGENTS = Path(__file__).parent / "agents"
