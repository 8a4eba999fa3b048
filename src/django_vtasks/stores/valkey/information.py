"""What a server says of itself, for the doctor."""

from collections.abc import Mapping
from typing import Any

from ...jobs.errors import InvalidOptions
from .caches import endpoint_of_cache
from .connection import link_of
from .endpoints import Endpoint
from .options import ValkeyOptions
from .requests import Command
from .sync_client import SyncClient


def server_information(options: ValkeyOptions) -> dict[str, str]:
    """The fields of the server's INFO, and its clock under `time` (epoch seconds).

    Raises StoreUnavailable, StoreRefused or InvalidOptions.
    """
    client = SyncClient(link_of(options))
    try:
        text = _text(client.send(Command(("INFO",))))
        seconds, microseconds = client.send(Command(("TIME",)))
    finally:
        client.close()
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, _, value in lines if name} | {
        "time": str(int(seconds) + int(microseconds) / 1e6)
    }


def shares_database(options: ValkeyOptions, cache: Mapping[str, Any]) -> bool:
    """Whether an entry of CACHES keeps its values in the same database of the same server."""
    try:
        ours, theirs = link_of(options).endpoint, endpoint_of_cache(cache, cluster=options.cluster)
    except InvalidOptions:
        return False
    return _place(ours) == _place(theirs)


def _place(endpoint: Endpoint) -> tuple[object, ...]:
    hosts = tuple(sorted((_host(host), port) for host, port in endpoint.addresses))
    return (endpoint.path or hosts, endpoint.service, endpoint.db)


def _host(name: str) -> str:
    return "localhost" if name in ("127.0.0.1", "::1") else name


def _text(reply: Any) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
