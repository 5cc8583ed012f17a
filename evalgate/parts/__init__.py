"""Runs that are made in parts: one that was cut short and goes on, or one that several machines share."""
