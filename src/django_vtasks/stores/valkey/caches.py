"""The connection of a CACHES entry: of Django's RedisCache, django-redis, django-valkey or django-vcache.

Only the settings are read, none of these packages is imported. Timeouts and pools of the cache are not taken over,
since a queue needs its own.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...jobs.errors import InvalidOptions
from .endpoints import (
    SENTINEL_PORT,
    SENTINEL_SCHEMES,
    Endpoint,
    Kind,
    parse_address,
    parse_urls,
    tls_options,
)


def endpoint_of_cache(entry: Mapping[str, Any], *, cluster: bool) -> Endpoint:
    """The endpoint of a CACHES entry. Raises InvalidOptions for one that names no server."""
    options: Mapping[str, Any] = entry.get("OPTIONS") or {}
    if options.get("credential_provider"):
        raise InvalidOptions("cache_alias names a cache with a credential_provider, which is not supported: "
                             "give BROKER_URL with a user name and a password instead")  # fmt: skip
    cluster = cluster or bool(options.get("CLUSTER_MODE"))
    urls = _urls(entry.get("LOCATION"))
    try:
        endpoint = parse_urls(urls if cluster else urls[:1], cluster=cluster)
    except InvalidOptions as error:
        raise InvalidOptions(f"cache_alias names a cache that is on no Valkey or Redis server: {error}") from None
    if options.get("SENTINELS"):
        endpoint = _behind_sentinels(endpoint, options)
    return _with_credentials(endpoint, options)


def _urls(location: Any) -> list[str]:
    if not isinstance(location, str):
        return [str(url) for url in location or ()]
    if location.partition("://")[0] in SENTINEL_SCHEMES:
        return [location]
    return [url for url in re.split(r"[;,]", location) if url.strip()]


def _behind_sentinels(endpoint: Endpoint, options: Mapping[str, Any]) -> Endpoint:
    # django-redis and django-valkey write the name of the service where others write the host.
    own: Mapping[str, Any] = options.get("SENTINEL_KWARGS") or {}
    return replace(
        endpoint,
        kind=Kind.SENTINEL,
        service=endpoint.addresses[0][0],
        addresses=tuple(_address(item) for item in options["SENTINELS"]),
        sentinel_username=own.get("username"),
        sentinel_password=own.get("password"),
    )


def _address(item: Any) -> tuple[str, int]:
    return parse_address(item, SENTINEL_PORT) if isinstance(item, str) else (str(item[0]), int(item[1]))


def _with_credentials(endpoint: Endpoint, options: Mapping[str, Any]) -> Endpoint:
    """What stands beside the URL: directly in OPTIONS, as PASSWORD, or among the arguments of the cache's pool."""
    given = {**options, **(options.get("CONNECTION_POOL_KWARGS") or {})}
    certificates = tls_options(given)
    is_secure = endpoint.tls is not None or (endpoint.kind is Kind.SENTINEL and "ssl_ca_certs" in certificates)
    return replace(
        endpoint,
        username=endpoint.username or given.get("USERNAME") or given.get("username"),
        password=endpoint.password or given.get("PASSWORD") or given.get("password"),
        db=endpoint.db if endpoint.kind is Kind.CLUSTER else endpoint.db or int(given.get("db") or 0),
        tls={**(endpoint.tls or {}), **certificates} if is_secure else None,
    )
