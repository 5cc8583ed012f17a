"""Blocking client of the Docker daemon: images, containers and networks."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evalgate.agents.containers.cleanup import remove_orphans
from evalgate.agents.containers.copied_files import copy_into_container
from evalgate.agents.containers.ownership import build_labels, find_own_container
from evalgate.agents.containers.spec import ContainerSpec, HealthTest, ImageBuild
from evalgate.agents.workers.process import DETAIL_CHARACTERS
from evalgate.core.errors import InvalidInputError
from evalgate.core.installation import describe_install
from evalgate.core.protocols import AgentUnreachableError
from evalgate.core.sanitize import to_one_line, truncate_start
from evalgate.core.types import Failure

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_ANSWER_S = 60
_TMP = "/tmp"  # noqa: S108  # the container's own


def connect_to_daemon() -> "DockerClient":
    """Return a client of the daemon that the environment names.

    Raises:
        InvalidInputError: the package `docker` is missing.
        AgentUnreachableError: no daemon answers.
    """
    try:
        import docker
        import docker.errors
    except ImportError:
        raise InvalidInputError(
            f"an agent of kind `docker` needs the package `docker`: {describe_install('docker')}"
        ) from None
    client = None
    try:
        client = docker.from_env(timeout=_ANSWER_S)
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        if client is not None:
            client.close()
        sentence = (
            "no Docker daemon answers: start it, or set DOCKER_HOST to where it listens (in a container "
            f"action, the daemon's socket must be mounted): {to_one_line(str(error), 200)}"
        )
        raise AgentUnreachableError(Failure("start", sentence)) from None
    return client


def ensure_image(client: "DockerClient", spec: ContainerSpec) -> str:
    """Build the image, or pull it if it is missing. Return its name, or its id if it was built.

    Raises:
        AgentUnreachableError: the image can be neither found nor pulled, or the build fails.
    """
    import docker.errors

    if isinstance(spec.image, ImageBuild):
        return _build_image(client, spec.image)
    try:
        client.images.get(spec.image)
    except docker.errors.ImageNotFound:
        try:
            client.images.pull(spec.image)
        except docker.errors.APIError as error:
            sentence = (
                f"there is no image `{spec.image}` here, and it cannot be pulled: "
                f"{_describe_api_error(error)}"
            )
            raise AgentUnreachableError(Failure("start", sentence)) from None
    except docker.errors.APIError as error:  # the name is not valid
        sentence = f"the image `{spec.image}` cannot be had: {_describe_api_error(error)}"
        raise AgentUnreachableError(Failure("start", sentence)) from None
    return spec.image


def _build_image(client: "DockerClient", build: ImageBuild) -> str:
    import docker.errors

    try:
        image, _ = client.images.build(
            path=str(build.context),
            dockerfile=build.dockerfile,
            buildargs=dict(build.args),
            target=build.target,
            rm=True,
            forcerm=True,
        )
    except docker.errors.BuildError as error:
        lines = (str(line.get("stream") or line.get("error") or "") for line in error.build_log)
        detail = truncate_start("".join(lines), DETAIL_CHARACTERS)
        sentence = f"the image of {build.context} cannot be built: {to_one_line(str(error.msg), 300)}"
        raise AgentUnreachableError(Failure("start", sentence, detail)) from None
    except (docker.errors.APIError, TypeError, OSError) as error:
        sentence = f"the image of {build.context} cannot be built: {_describe_api_error(error)}"
        raise AgentUnreachableError(Failure("start", sentence)) from None
    return str(image.id)


def create_container(client: "DockerClient", image: str, spec: ContainerSpec) -> "Container":
    """Create a container of an image without starting it, and copy the files of `spec` into it.

    Raises:
        AgentUnreachableError: the daemon refuses, or a file cannot be read.
    """
    import docker.errors

    container = None
    try:
        container = client.containers.create(image, **_build_settings(client, spec))
        copy_into_container(container, spec.copied)
    except (docker.errors.APIError, OSError) as error:
        if container is not None:
            remove_container(container)
        raise AgentUnreachableError(
            Failure("start", f"cannot make {spec.owner}'s container: {_describe_api_error(error)}")
        ) from None
    return container


def start_container(container: "Container", owner: str = "the agent") -> None:
    """Start a container; raise AgentUnreachableError if the daemon cannot start it.

    `owner` names the container's owner in the error message.
    """
    import docker.errors

    try:
        container.start()
    except docker.errors.APIError as error:
        raise AgentUnreachableError(
            Failure("start", f"cannot start {owner}'s container: {_describe_api_error(error)}")
        ) from None


def remove_container(container: "Container") -> None:
    """Kill a container and remove it with its volumes that have no name; ignore errors of the daemon."""
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        container.remove(force=True, v=True)


def prepare_image(spec: ContainerSpec) -> "tuple[DockerClient, str]":
    """Remove leftovers of gates that ended. Return a client of the daemon, and the image's name or id.

    The caller must close the client.

    Raises:
        InvalidInputError: the package `docker` is missing.
        AgentUnreachableError: there is no daemon or no image.
    """
    client = connect_to_daemon()
    try:
        remove_orphans(client)
        return client, ensure_image(client, spec)
    except BaseException:
        client.close()
        raise


def _build_settings(client: "DockerClient", spec: ContainerSpec) -> dict[str, Any]:
    limits = spec.limits
    settings: dict[str, Any] = {
        "command": None if spec.command is None else list(spec.command),
        "environment": dict(spec.env),
        "labels": build_labels(),
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
    """Return the settings of a container that let the container and the gate reach each other."""
    if own := find_gate_container(client):
        return {"network": find_shared_network(client, own, spec)}
    # Any free port of the loopback interface: the agent is for the gate only, not for the network.
    return {} if spec.port is None else {"ports": {f"{spec.port}/tcp": ("127.0.0.1", None)}}


def find_gate_container(client: "DockerClient") -> str:
    """Return the id of the container that the gate runs in.

    Return "" if the gate runs in no container, or its container uses the machine's network.
    """
    own = find_own_container()
    return own if own and find_container_network(client, own) != "host" else ""


def find_shared_network(client: "DockerClient", own: str, spec: ContainerSpec) -> str:
    """Return the network in which the gate's container `own` and the container of `spec` reach each other.

    This is the network of `spec`, or the first network of `own` if `spec` has the default, `bridge`.
    """
    return find_container_network(client, own) if spec.limits.network == "bridge" else spec.limits.network


def _list_volumes(spec: ContainerSpec) -> list[str]:
    """Return the volumes of a container, each as `path` or `name:path[:ro]`."""
    # A volume without a name makes a copied folder writable in a read-only container. It is removed with the
    # container.
    copies = [target for source, target in spec.copied if source.is_dir()]
    named = [f"{name}:{target}{':ro' if is_read_only else ''}" for name, target, is_read_only in spec.volumes]
    return [*copies, *spec.scratch, *named]


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
    """Return the name of a container's first network, or `bridge` if it has none.

    `host` is the machine's own network.
    """
    networks = client.containers.get(container).attrs["NetworkSettings"]["Networks"]
    return next(iter(networks), "bridge")


def find_address(container: "Container", port: int) -> str:
    """Return the `host:port` at which the gate reaches a container's port; "" while it has no address."""
    container.reload()
    settings = container.attrs["NetworkSettings"]
    published = (settings.get("Ports") or {}).get(f"{port}/tcp")
    if published:
        return f"127.0.0.1:{published[0]['HostPort']}"
    addresses = (network.get("IPAddress") for network in (settings.get("Networks") or {}).values())
    return next((f"{address}:{port}" for address in addresses if address), "")


def read_log_tail(container: "Container") -> str:
    """Return the end of a container's log, about 8,192 characters at most.

    Return "" if the log is empty or the daemon does not return it.
    """
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        return truncate_start(bytes(container.logs(tail=200)).decode("utf-8", "replace"), DETAIL_CHARACTERS)
    return ""


def _describe_api_error(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return to_one_line(str(explanation or error), 400)
