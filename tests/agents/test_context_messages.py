"""Messages that precede a conversation reach the agent."""

from dataclasses import replace
from pathlib import Path

from evalgate.core.types import Reply
from tests.agents.play import a_talk, outcomes, tiny

AGENT = """
def answer(text, session):
    return " ".join(message["content"] for message in session.context_messages) or "nothing"
"""


async def test_the_agent_gets_them_with_the_session(tmp_path: Path) -> None:
    (tmp_path / "context_agent.py").write_text(AGENT)
    with_context = replace(a_talk("a", "?"), context_messages=({"role": "system", "content": "Add."},))

    runs = await outcomes(
        lambda env: tiny("context_agent:answer", cwd=tmp_path, env=env), [with_context, a_talk("b", "?")]
    )

    assert runs["a"].replies == (Reply("Add."),)
    assert runs["b"].replies == (Reply("nothing"),)
