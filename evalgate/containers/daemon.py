"""The Docker daemon: found, asked for images, and made to run containers. Everything here blocks."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evalgate.containers.archive import archive_of, archive_of_file
from evalgate.containers.ownership import labels, own_container, sweep
from evalgate.containers.spec import Build, ContainerSpec, HealthTest
from evalgate.errors import InvalidInput
from evalgate.extras import describe_install
from evalgate.hostile import end_of, one_line
from evalgate.model import Failure
from evalgate.protocols import AgentUnreachable

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_LOG_TAIL = 8 * 1024
_ANSWER_S = 60
_TMP = "/tmp"  # noqa: S108  # the container's own


def connect() -> "DockerClient":
    """A client of the daemon that the environment names.

    Raises:
        InvalidInput: the SDK is missing.
        AgentUnreachable: no daemon answers.
    """
    try:
        import docker
        import docker.errors
    except ImportError:
        raise InvalidInput(
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
            f"action, the daemon's socket must be mounted): {one_line(str(error), 200)}"
        )
        raise AgentUnreachable(Failure("start", sentence)) from None
    return client


def image_of(client: "DockerClient", spec: ContainerSpec) -> str:
    """The image, built or pulled where it is not there. Raises AgentUnreachable: it cannot be had."""
    import docker.errors

    if isinstance(spec.image, Build):
        return _built(client, spec.image)
    try:
        client.images.get(spec.image)
    except docker.errors.ImageNotFound:
        try:
            client.images.pull(spec.image)
        except docker.errors.APIError as error:
            sentence = f"there is no image `{spec.image}` here, and it cannot be pulled: {_said(error)}"
            raise AgentUnreachable(Failure("start", sentence)) from None
    except docker.errors.APIError as error:  # what is no name of an image
        sentence = f"the image `{spec.image}` cannot be had: {_said(error)}"
        raise AgentUnreachable(Failure("start", sentence)) from None
    return spec.image


def _built(client: "DockerClient", build: Build) -> str:
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
        detail = end_of("".join(lines), _LOG_TAIL)
        sentence = f"the image of {build.context} cannot be built: {one_line(str(error.msg), 300)}"
        raise AgentUnreachable(Failure("start", sentence, detail)) from None
    except (docker.errors.APIError, TypeError, OSError) as error:
        sentence = f"the image of {build.context} cannot be built: {_said(error)}"
        raise AgentUnreachable(Failure("start", sentence)) from None
    return str(image.id)


def create(client: "DockerClient", image: str, spec: ContainerSpec) -> "Container":
    """A container that is not started, with everything copied into it. Raises AgentUnreachable."""
    import docker.errors

    container = None
    try:
        container = client.containers.create(image, **_settings(client, spec))
        for source, target in spec.copied:
            if source.is_dir():
                container.put_archive(target, archive_of(source))
            else:
                container.put_archive("/", archive_of_file(source, target))
    except (docker.errors.APIError, OSError) as error:
        if container is not None:
            remove(container)
        raise AgentUnreachable(
            Failure("start", f"cannot make {spec.whose}'s container: {_said(error)}")
        ) from None
    return container


def start(container: "Container", whose: str = "the agent") -> None:
    """Raises AgentUnreachable: its command cannot be executed."""
    import docker.errors

    try:
        container.start()
    except docker.errors.APIError as error:
        raise AgentUnreachable(
            Failure("start", f"cannot start {whose}'s container: {_said(error)}")
        ) from None


def remove(container: "Container") -> None:
    """End a container, and remove it with its volumes."""
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        container.remove(force=True, v=True)


def prepared(spec: ContainerSpec) -> "tuple[DockerClient, str]":
    """A client and the image, once what earlier runs left is removed. Raises AgentUnreachable."""
    client = connect()
    try:
        sweep(client)
        return client, image_of(client, spec)
    except BaseException:
        client.close()
        raise


def _settings(client: "DockerClient", spec: ContainerSpec) -> dict[str, Any]:
    limits = spec.limits
    settings: dict[str, Any] = {
        "command": None if spec.command is None else list(spec.command),
        "environment": dict(spec.env),
        "labels": labels(),
        "user": spec.user,
        "working_dir": spec.folder,
        "init": True,
        "security_opt": ["no-new-privileges"],
        "network": limits.network,
        "mem_limit": limits.memory,
        "memswap_limit": limits.memory,
        "nano_cpus": None if limits.cpus is None else int(limits.cpus * 1e9),
        "pids_limit": limits.pids,
        "read_only": limits.read_only,
        "volumes": _volumes(spec) or None,
        "entrypoint": None if spec.entrypoint is None else list(spec.entrypoint) or [""],
        "hostname": spec.hostname,
        "extra_hosts": dict(spec.extra_hosts) or None,
        "cap_drop": list(spec.cap_drop) or None,
        "healthcheck": _health(spec.health),
        "tmpfs": dict.fromkeys((*spec.tmpfs, *((_TMP,) if limits.read_only else ())), "") or None,
    }
    if spec.aliases:
        endpoint = client.api.create_endpoint_config(aliases=list(spec.aliases))
        settings["networking_config"] = {limits.network: endpoint}
    if spec.port is None and spec.speaks:
        settings |= {"stdin_open": True, "detach": False}
    if spec.port is not None or spec.calls_gate:
        settings |= _met(client, spec)
    return {name: value for name, value in settings.items() if value is not None}


def _met(client: "DockerClient", spec: ContainerSpec) -> dict[str, Any]:
    """What lets the container and the gate reach each other."""
    if own := gates_container(client):
        return {"network": meeting_place(client, own, spec)}
    return {} if spec.port is None else {"ports": {f"{spec.port}/tcp": ("127.0.0.1", None)}}


def gates_container(client: "DockerClient") -> str:
    """The container that the gate runs in; empty when it is on the machine itself, or in its network."""
    own = own_container()
    return own if own and network_of(client, own) != "host" else ""


def meeting_place(client: "DockerClient", own: str, spec: ContainerSpec) -> str:
    """The network in which the gate's own container and that of the agent are."""
    return network_of(client, own) if spec.limits.network == "bridge" else spec.limits.network


def _volumes(spec: ContainerSpec) -> list[str]:
    """Those without a name can be written in a container that is read-only, and go with it."""
    copies = [target for source, target in spec.copied if source.is_dir()]
    named = [f"{name}:{target}{':ro' if is_read else ''}" for name, target, is_read in spec.volumes]
    return [*copies, *spec.scratch, *named]


def _health(health: HealthTest | None) -> dict[str, Any] | None:
    if health is None:
        return None
    times = {name: getattr(health, name) for name in ("interval", "timeout", "start_period")}
    return {
        **{name: int(seconds * 1e9) for name, seconds in times.items() if seconds is not None},
        **({} if health.test is None else {"test": list(health.test)}),
        **({} if health.retries is None else {"retries": health.retries}),
    }


def network_of(client: "DockerClient", container: str) -> str:
    """The network that the gate's own container is in: there both reach each other. `host`: the machine's."""
    networks = client.containers.get(container).attrs["NetworkSettings"]["Networks"]
    return next(iter(networks), "bridge")


def address_of(container: "Container", port: int) -> str:
    """Where a started container's port is reached from here; empty while it is not."""
    container.reload()
    settings = container.attrs["NetworkSettings"]
    published = (settings.get("Ports") or {}).get(f"{port}/tcp")
    if published:
        return f"127.0.0.1:{published[0]['HostPort']}"
    addresses = (network.get("IPAddress") for network in (settings.get("Networks") or {}).values())
    return next((f"{address}:{port}" for address in addresses if address), "")


def tail(container: "Container") -> str:
    """The end of what a container wrote."""
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        return end_of(bytes(container.logs(tail=200)).decode("utf-8", "replace"), _LOG_TAIL)
    return ""


def _said(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return one_line(str(explanation or error), 400)
