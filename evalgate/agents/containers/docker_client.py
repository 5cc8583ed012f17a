"""Blocking client of the Docker daemon: images and containers."""

from contextlib import suppress
from typing import TYPE_CHECKING

from evalgate.agents.containers.cleanup import remove_orphans
from evalgate.agents.containers.container_settings import build_container_settings, find_daemon_host
from evalgate.agents.containers.copied_files import copy_into_container
from evalgate.agents.containers.spec import ContainerSpec, ImageBuild
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


def connect_to_daemon() -> "DockerClient":
    """Return a client of the Docker daemon that the environment names, for example by `DOCKER_HOST`.

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
    """Build the image of a container, or pull it if it is missing.

    Return the image's name, or its id if the image was built.

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
        container = client.containers.create(image, **build_container_settings(client, spec))
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

    `owner` is the agent or the service that the container belongs to, for the error message.
    """
    import docker.errors

    try:
        container.start()
    except docker.errors.APIError as error:
        raise AgentUnreachableError(
            Failure("start", f"cannot start {owner}'s container: {_describe_api_error(error)}")
        ) from None


def remove_container(container: "Container") -> None:
    """Kill a container and remove it with its anonymous volumes; ignore errors of the daemon."""
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        container.remove(force=True, v=True)


def prepare_image(spec: ContainerSpec) -> "tuple[DockerClient, str]":
    """Connect to the daemon and build or pull the image. Return the client and the image's name or id.

    Also remove the containers, networks and volumes left behind by gates that have ended. The caller must
    close the client.

    Raises:
        InvalidInputError: the package `docker` is missing.
        AgentUnreachableError: no daemon answers, or the image can be neither built nor pulled.
    """
    client = connect_to_daemon()
    try:
        remove_orphans(client)
        return client, ensure_image(client, spec)
    except BaseException:
        client.close()
        raise


def find_address(client: "DockerClient", container: "Container", port: int) -> str:
    """Return the `host:port` at which the gate reaches a container's port.

    Return "" while the container has no address.

    Raises:
        docker.errors.APIError: the daemon does not describe the container.
    """
    container.reload()
    settings = container.attrs["NetworkSettings"]
    published = (settings.get("Ports") or {}).get(f"{port}/tcp")
    if published:
        return f"{find_daemon_host(client) or '127.0.0.1'}:{published[0]['HostPort']}"
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
