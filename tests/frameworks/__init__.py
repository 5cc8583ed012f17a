"""Gate agents of real frameworks, in interpreters that have the frameworks.

No framework is installed in evalgate's environment. Each framework has its own virtual environment, which is built at
the first use and kept in the user's cache.
"""

from pathlib import Path

AGENTS = Path(__file__).parent / "agents"
