"""Where a server is: parsed from URLs, or read out of a CACHES entry. Passwords are never part of a repr."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ...jobs.errors import InvalidOptions

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
type Address = tuple[str, int]


class Kind(StrEnum):
    """How the server that takes our commands is found."""

    DIRECT = "direct"
    UNIX = "unix"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server, or whom to ask for it. `tls` holds the `ssl_...` options, None means no TLS; `scheme` is that of the
    URL, if it came from one."""

    scheme: str = field(default="", compare=False)
    kind: Kind = Kind.DIRECT
    addresses: tuple[Address, ...] = (("localhost", DEFAULT_PORT),)
    path: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: dict[str, Any] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        where = self.path or ",".join(f"{host}:{port}" for host, port in self.addresses)
        by_kind = {Kind.UNIX: "unix", Kind.SENTINEL: "sentinel"}
        scheme = self.scheme or by_kind.get(self.kind, "valkey" if self.tls is None else "valkeys")
        user = f"{self.username or ''}:***@" if self.password else ""
        rest = f"/{self.service}/{self.db}" if self.service else f"/{self.db}"
        return f"{scheme}://{user}{where}{'' if self.path else rest}"


_PLAIN = frozenset(("redis", "valkey"))
_TLS = frozenset(("rediss", "valkeys"))
_SENTINEL = frozenset(("sentinel", "redis+sentinel", "valkey+sentinel"))
_SENTINEL_TLS = frozenset(("sentinels", "rediss+sentinel", "valkeys+sentinel"))
SENTINEL_SCHEMES = _SENTINEL | _SENTINEL_TLS
SCHEMES = sorted(_PLAIN | _TLS | _SENTINEL | _SENTINEL_TLS | {"unix"})
TLS_OPTIONS = frozenset(
    ("ssl_ca_certs", "ssl_ca_data", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname",
     "ssl_ciphers"),
)  # fmt: skip
_QUERY = TLS_OPTIONS | {"db", "username", "password", "sentinel_username", "sentinel_password"}
# Accepted because cache URLs have them; this package sets its own.
_IGNORED = frozenset(
    ("socket_timeout", "socket_connect_timeout", "socket_keepalive", "max_connections", "health_check_interval",
     "retry_on_timeout", "decode_responses", "protocol", "encoding", "client_name", "timeout"),
)  # fmt: skip


def parse_url(url: str) -> Endpoint:
    """The endpoint of one URL. Raises InvalidOptions, without the password, for what is none."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check(parts.scheme, options)
    secure = parts.scheme in _TLS | _SENTINEL_TLS
    common: dict[str, Any] = {
        "scheme": parts.scheme,
        "username": unquote(parts.username or "") or options.get("username"),
        "password": unquote(parts.password or "") or options.get("password"),
        "tls": tls_options(options) if secure else None,
    }
    if parts.scheme == "unix":
        return Endpoint(kind=Kind.UNIX, path=unquote(parts.path), db=_database(options.get("db")), **common)
    if parts.scheme in _SENTINEL | _SENTINEL_TLS:
        return _sentinel(parts, options, common)
    path = unquote(parts.path).strip("/")
    return Endpoint(addresses=_addresses(parts, DEFAULT_PORT), db=_database(options.get("db") or path), **common)


def parse_urls(urls: Iterable[str], *, cluster: bool) -> Endpoint:
    """The endpoint that several URLs (each may be a list with commas) describe together."""
    endpoints = [parse_url(url) for url in _split(urls)]
    if not endpoints:
        raise InvalidOptions("no URL of a Valkey or Redis server is given: set BROKER_URL or cache_alias in OPTIONS")
    addresses = tuple(address for endpoint in endpoints for address in endpoint.addresses)
    if cluster:
        return replace(endpoints[0], kind=Kind.CLUSTER, addresses=addresses, db=0)
    if len(endpoints) > 1 and endpoints[0].kind is not Kind.SENTINEL:
        raise InvalidOptions("several URLs are given: that needs CLUSTER_MODE, or one Sentinel URL")
    return replace(endpoints[0], addresses=addresses)


def _split(urls: Iterable[str]) -> list[str]:
    # A comma separates URLs only where a scheme follows; inside a Sentinel URL it separates hosts.
    found: list[str] = []
    for piece in ",".join(urls).split(","):
        if "://" in piece or not found:
            found.append(piece.strip())
        else:
            found[-1] += f",{piece.strip()}"
    return [url for url in found if url]


def _check(scheme: str, options: dict[str, str]) -> None:
    if scheme not in SCHEMES:
        raise InvalidOptions(f"the URL of a server begins with one of {', '.join(SCHEMES)}, not {scheme!r}")
    unknown = sorted(options.keys() - _QUERY - _IGNORED)
    if unknown:
        raise InvalidOptions(
            f"unknown options in a server URL: {', '.join(unknown)}; known: {', '.join(sorted(_QUERY))}"
        )


def _sentinel(parts: SplitResult, options: dict[str, str], common: dict[str, Any]) -> Endpoint:
    service, _, database = unquote(parts.path).strip("/").partition("/")
    if not service:
        raise InvalidOptions("a Sentinel URL names the service: sentinel://host:26379,host2:26379/service/0")
    return Endpoint(
        kind=Kind.SENTINEL,
        addresses=_addresses(parts, SENTINEL_PORT),
        service=service,
        db=_database(options.get("db") or database),
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
        **common,
    )


def _addresses(parts: SplitResult, default_port: int) -> tuple[Address, ...]:
    hosts = parts.netloc.rpartition("@")[2]
    return (
        tuple(parse_address(item, default_port) for item in hosts.split(","))
        if hosts
        else (("localhost", default_port),)
    )


def parse_address(text: str, default_port: int = DEFAULT_PORT) -> Address:
    """Host and port out of `host`, `host:port` or `[v6]:port`. Raises InvalidOptions for a port that is none."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or host.count("[") != host.count("]"):
        host, port = text.strip(), ""
    try:
        return host.strip("[]") or "localhost", int(port) if port else default_port
    except ValueError:
        raise InvalidOptions(f"{port!r} is no port number") from None


def _database(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise InvalidOptions(f"{text!r} is no database number") from None


def tls_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some options that are about TLS."""
    return {name: value for name, value in options.items() if name in TLS_OPTIONS}


def tls_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """The driver's arguments for TLS options: certificates are verified, and the host name too, unless told."""
    arguments = tls_options(options)
    wanted = options.get("ssl_cert_reqs", "required")
    # Written as text, as a constant of the ssl module, or None for no verification.
    name = str(getattr(wanted, "name", wanted)).lower().removeprefix("cert_")
    arguments["ssl_cert_reqs"] = name
    check = str(options.get("ssl_check_hostname", name == "required")).lower()
    arguments["ssl_check_hostname"] = check in ("1", "true", "yes", "on")
    return arguments
