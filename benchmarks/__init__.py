"""Measure speed, memory and error rates of evalgate: `make benchmarks`.

Speed and memory are compared with a reference that is measured in the same run, such as `json.loads`, because
machines differ. No benchmark is a test.
"""
