"""The connection of a CACHES entry: of Django's RedisCache, django-redis, django-valkey or django-vcache."""

from collections.abc import Mapping
from typing import Any

from .endpoints import Endpoint, parse_urls


def endpoint_of_cache(entry: Mapping[str, Any], *, cluster: bool) -> Endpoint:
    """The endpoint of a CACHES entry. Raises InvalidOptions for one that names no server."""
    location = entry.get("LOCATION") or ()
    urls = (location,) if isinstance(location, str) else tuple(location)
    return parse_urls(urls[:1] if not cluster else urls, cluster=cluster)
