"""Users that a model plays: by a scenario, a plan or a story."""
