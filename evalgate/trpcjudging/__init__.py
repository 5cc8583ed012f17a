"""Judging as tRPC-Agent-Go does: its settings, its answer formats, its vote. The prompts are ours."""
