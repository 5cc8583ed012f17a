"""Arguments with which Docker creates a container, such as its limits, volumes and network."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evalgate.agents.containers.ownership import build_labels, find_own_container
from evalgate.agents.containers.spec import ContainerSpec, HealthTest

if TYPE_CHECKING:
    from docker import DockerClient

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_TMP = "/tmp"  # noqa: S108  # the container's own


def build_container_settings(client: "DockerClient", spec: ContainerSpec) -> dict[str, Any]:
    """Return the arguments of `client.containers.create` for a container, without its image.

    Raises:
        docker.errors.APIError: the daemon does not describe the gate's own container.
    """
    limits = spec.limits
    settings: dict[str, Any] = {
        "command": None if spec.command is None else list(spec.command),
        "environment": dict(spec.env),
        "labels": build_labels(client),
        "user": spec.user,
        "working_dir": spec.folder,
        # As process 1, a program that handles no SIGTERM would ignore it, and its orphans would stay.
        "init": True,
        "security_opt": ["no-new-privileges"],
        "network": limits.network,
        "mem_limit": limits.memory,
        "memswap_limit": limits.memory,  # memory and swap together: equal means no swap
        "nano_cpus": None if limits.cpus is None else int(limits.cpus * 1e9),
        "pids_limit": limits.pids,
        "read_only": limits.read_only,
        "volumes": _list_volumes(spec) or None,
        # An empty list would leave the image's entrypoint as it is; [""] removes it.
        "entrypoint": None if spec.entrypoint is None else list(spec.entrypoint) or [""],
        "hostname": spec.hostname,
        "extra_hosts": dict(spec.extra_hosts) or None,
        "cap_drop": list(spec.cap_drop) or None,
        "healthcheck": _build_healthcheck(spec.health),
        "tmpfs": dict.fromkeys((*spec.tmpfs, *((_TMP,) if limits.read_only else ())), "") or None,
    }
    if spec.aliases:
        endpoint = client.api.create_endpoint_config(aliases=list(spec.aliases))
        settings["networking_config"] = {limits.network: endpoint}
    if spec.port is None and spec.is_agent:
        settings |= {"stdin_open": True, "detach": False}
    if spec.port is not None or spec.calls_gate:
        settings |= _build_network_settings(client, spec)
    return {name: value for name, value in settings.items() if value is not None}


def _build_network_settings(client: "DockerClient", spec: ContainerSpec) -> dict[str, Any]:
    """Return the settings by which the gate and a container reach each other: `network` or `ports`.

    If the gate runs in a container of the same daemon, both containers get a common network. Otherwise, the
    container's port is published. Return {} if there is no port to publish.
    """
    if own := find_gate_container(client):
        return {"network": find_shared_network(client, own, spec)}
    if spec.port is None:
        return {}
    # Any free port, if possible of the loopback interface: the agent is for the gate, not for the network.
    published = None if find_daemon_host(client) else ("127.0.0.1", None)
    return {"ports": {f"{spec.port}/tcp": published}}


def find_daemon_host(client: "DockerClient") -> str:
    """Return the host of a daemon that is reached over the network, such as `docker` in a job of GitLab.

    Return "" for a daemon on this machine. An IPv6 address has brackets.
    """
    address = urlsplit(client.api.base_url)
    host = address.hostname or ""
    # docker-py writes a Unix socket as `http+docker://localhost`.
    if address.scheme not in {"http", "https"} or host in _LOOPBACK_HOSTS:
        return ""
    return f"[{host}]" if ":" in host else host


def find_gate_container(client: "DockerClient") -> str:
    """Return the id of the container that the gate runs in.

    Return "" if the gate does not run in a container of this daemon, or if the gate's container uses the
    machine's own network, `host`.

    Raises:
        docker.errors.APIError: the daemon refuses.
    """
    own = find_own_container(client)
    return own if own and find_container_network(client, own) != "host" else ""


def find_shared_network(client: "DockerClient", gate_container: str, spec: ContainerSpec) -> str:
    """Return the network in which `gate_container` and the container of `spec` reach each other.

    If `spec` has the default network, `bridge`, this is the first network of `gate_container`. Otherwise, it
    is the network of `spec`.
    """
    network = spec.limits.network
    return find_container_network(client, gate_container) if network == "bridge" else network


def _list_volumes(spec: ContainerSpec) -> list[str]:
    """Return the volumes of a container, each as `path` (anonymous volume) or `name:path[:ro]`."""
    # An anonymous volume makes a copied folder writable in a read-only container, and is removed with it.
    copies = [target for source, target in spec.copied if source.is_dir()]
    named = [f"{name}:{target}{':ro' if is_read_only else ''}" for name, target, is_read_only in spec.volumes]
    return [*copies, *spec.anonymous_volumes, *named]


def _build_healthcheck(health: HealthTest | None) -> dict[str, Any] | None:
    if health is None:
        return None
    times = {name: getattr(health, name) for name in ("interval", "timeout", "start_period")}
    return {
        **{name: int(seconds * 1e9) for name, seconds in times.items() if seconds is not None},
        **({} if health.test is None else {"test": list(health.test)}),
        **({} if health.retries is None else {"retries": health.retries}),
    }


def find_container_network(client: "DockerClient", container: str) -> str:
    """Return the name of a container's first network, or `bridge` if the container has none.

    The name is `host` for a container that uses the machine's own network.

    Raises:
        docker.errors.APIError: there is no such container, or the daemon refuses.
    """
    networks = client.containers.get(container).attrs["NetworkSettings"]["Networks"]
    return next(iter(networks), "bridge")
