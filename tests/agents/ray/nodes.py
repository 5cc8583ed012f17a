"""Start a Ray cluster of several nodes on this machine: `python nodes.py`, with an interpreter that has Ray.

Print the address, then answer each line of stdin: `kill` switches off a node with room for an actor and starts
another node, `actors` prints the number of living actors. The cluster ends when stdin ends. RAY_TMPDIR names the
folder of its files.
"""

import os
import sys

import ray
from ray._private.state import actors
from ray.cluster_utils import Cluster

STORE = {"object_store_memory": 80_000_000}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray prints
    cluster = Cluster()
    cluster.add_node(num_cpus=0, include_dashboard=False, **STORE)
    nodes = [cluster.add_node(num_cpus=1, **STORE) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    answers.write(cluster.address + "\n")
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(nodes.pop(0), allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=1, **STORE))
            answers.write("killed\n")
        else:
            alive = sum(actor["State"] != "DEAD" for actor in actors().values())
            answers.write(f"{alive}\n")
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
