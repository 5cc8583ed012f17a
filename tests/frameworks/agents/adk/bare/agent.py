"""An agent in a folder that is no package."""

from google.adk.agents import LlmAgent
from scripted import Scripted

root_agent = LlmAgent(name="bare", model=Scripted(script=lambda _: ["bare"]))
