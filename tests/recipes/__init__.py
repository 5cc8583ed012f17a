"""The recipes for CI systems, run as those systems would run them."""
