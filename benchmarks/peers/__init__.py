"""Programs that run the cases of `benchmarks.distinct_cases` in another way, each as a process of its own."""
