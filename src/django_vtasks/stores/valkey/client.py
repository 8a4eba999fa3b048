"""The only importer of the Valkey or Redis driver: valkey-py, or redis-py where only that is installed.

Nothing but the drivers' connections is used (commands, replies, TLS, authentication), which are the same in both.
"""

import socket
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ...jobs.errors import InvalidOptions
from .endpoints import Address, Endpoint, tls_arguments

_DRIVERS = (("valkey", "libvalkey"), ("redis", "hiredis"))


class Driver:
    """The names this package uses of one driver."""

    def __init__(self, name: str, codec: str) -> None:
        self.name = name
        self.sync = import_module(f"{name}.connection")
        self.asyncio = import_module(f"{name}.asyncio.connection")
        errors = import_module(f"{name}.exceptions")
        self.response_error: type[Exception] = errors.ResponseError
        self.connection_error: type[Exception] = errors.ConnectionError
        self.timeout_error: type[Exception] = errors.TimeoutError
        self.refusals: tuple[type[Exception], ...] = (errors.AuthenticationError, errors.AuthorizationError)
        self.all_errors: tuple[type[BaseException], ...] = (getattr(errors, _BASE[name]), OSError)
        self.pack: Callable[[Sequence[Any]], bytes] = _packer(codec)


_BASE = {"valkey": "ValkeyError", "redis": "RedisError"}


@cache
def driver() -> Driver:
    """The installed driver. Raises InvalidOptions when there is none."""
    for name, codec in _DRIVERS:
        try:
            return Driver(name, codec)
        except ModuleNotFoundError as error:
            if error.name not in (name, "redis", "valkey"):
                raise
    raise InvalidOptions("no Valkey driver is installed: pip install 'django-vtasks[valkey]' (or [redis])")


def _packer(codec: str) -> Callable[[Sequence[Any]], bytes]:
    try:
        pack: Callable[[Sequence[Any]], bytes] = import_module(codec).pack_command
    except (ImportError, AttributeError):
        return pack_command
    return pack


def pack_command(parts: Sequence[Any]) -> bytes:
    """One command in the server's protocol; the drivers' C packers do the same faster."""
    out = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        out.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(out)


# --- connections -------------------------------------------------------------------------------------------------


def _keepalive() -> dict[int, int]:
    wanted = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    return {getattr(socket, name): value for name, value in wanted if hasattr(socket, name)}


def make_connection(
    module: Any, endpoint: Endpoint, address: Address | None, timeouts: tuple[float, float | None]
) -> Any:
    """A connection of a driver's module, not yet connected. `timeouts` are for connecting and for reading, None for
    a caller who sees to it himself.

    Without an address it goes to the endpoint's unix socket. The driver retries nothing by itself.
    """
    arguments: dict[str, Any] = {
        "db": endpoint.db,
        "username": endpoint.username,
        "password": endpoint.password,
        "socket_connect_timeout": timeouts[0],
        "socket_timeout": timeouts[1],
        "health_check_interval": 0,
        "client_name": "django-vtasks",
        "protocol": 2,
    }
    if address is None:
        return module.UnixDomainSocketConnection(path=endpoint.path, **arguments)
    arguments |= {
        "host": address[0],
        "port": address[1],
        "socket_keepalive": True,
        "socket_keepalive_options": _keepalive(),
    }
    if endpoint.tls is not None:
        return module.SSLConnection(**arguments, **tls_arguments(endpoint.tls))
    return module.Connection(**arguments)
