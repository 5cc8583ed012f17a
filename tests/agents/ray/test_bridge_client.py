"""Sentences about a cluster."""

import pytest

from evalgate.agents.ray.bridge_client import ClusterSpec, describe_capacity


@pytest.mark.parametrize(
    ("wanted", "has", "expected"),
    [
        ({}, {"CPU": 2.0}, "the cluster has 2 CPU, and each worker wants 0.25 CPU"),
        (
            {"GPU": 1},
            {"CPU": 2.0, "GPU": 0},
            "the cluster has 2 CPU and 0 GPU, and each worker wants 0.25 CPU and 1 GPU",
        ),
    ],
)
def test_capacity_names_every_resource_that_a_worker_wants(
    wanted: dict[str, float], has: dict[str, float], expected: str
) -> None:
    cluster = ClusterSpec(
        address="auto", actors=1, cpus=0.25, resources=wanted, runtime_env={}, calls=1, spec=""
    )
    assert describe_capacity(cluster, has) == expected
