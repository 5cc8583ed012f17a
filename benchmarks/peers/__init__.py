"""Programs for comparison with evalgate, each run in its own process."""
