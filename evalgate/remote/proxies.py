"""Which proxy leads to an address: the one that the environment names, as curl and Go's programs read it."""

from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from evalgate.errors import InvalidInput
from evalgate.remote.addresses import is_address


def proxy_for(url: str) -> str | None:
    """The address of the proxy (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY); None: there is none.

    What listens on this machine is never asked for through a proxy, which would look for it on its own.

    Raises:
        InvalidInput: what the environment names is no HTTP proxy.
    """
    parts, proxies = urlsplit(url), getproxies_environment()
    host = parts.hostname or ""
    exempt = (entry.strip().lower() for entry in proxies.get("no", "").split(","))
    if _is_here(host) or any(_exempts(entry, host, parts.netloc.lower()) for entry in exempt if entry):
        return None
    for name in (parts.scheme, "all"):
        if proxy := proxies.get(name):
            return _checked(name, proxy)
    return None


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _exempts(entry: str, host: str, netloc: str) -> bool:
    """Whether an entry of NO_PROXY speaks of a host, of one with its port, or of its domain or network."""
    domain = entry.lstrip(".*")
    if entry == "*" or entry in (host, netloc) or (domain and f".{host}".endswith(f".{domain}")):
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False


def _checked(name: str, proxy: str) -> str:
    """No message shows the address: it may hold a password."""
    variable, address = f"{name.upper()}_PROXY", proxy if "://" in proxy else f"http://{proxy}"
    kind = address.partition(":")[0].lower()
    if kind not in {"http", "https"}:
        raise InvalidInput(
            f"{variable} names a proxy of the kind `{kind}`: an agent is asked through HTTP proxies alone. "
            "Name one, or exempt the agent's host in NO_PROXY"
        )
    if not is_address(address):
        raise InvalidInput(f"{variable} names a proxy that is no address: it must look like http://host:port")
    return address
