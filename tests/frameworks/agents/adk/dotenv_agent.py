"""An agent that says what its environment holds."""

import os

from google.adk.agents import LlmAgent
from scripted import Scripted

_SAID = f"{os.environ.get('FROM_DOTENV')} {os.environ.get('GIVEN')}"

root_agent = LlmAgent(name="dotenv", model=Scripted(script=lambda _: [_SAID]))
