"""Speed and memory of evalgate, each beside a floor measured in the same run: `make benchmarks`.

Figures are ratios, because machines differ; nothing here is a test.
"""
