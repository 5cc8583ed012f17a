"""Judging as Google ADK does: its options, its answer formats, its votes. The prompts are ours."""
