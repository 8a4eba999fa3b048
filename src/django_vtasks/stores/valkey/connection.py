"""From options to a link."""

from .caches import endpoint_of_cache
from .endpoints import parse_urls
from .keys import Keys
from .locate import Link
from .options import ValkeyOptions


def link_of(options: ValkeyOptions) -> Link:
    """The link that options describe. Raises InvalidOptions."""
    if options.cache is not None:
        endpoint = endpoint_of_cache(options.cache, cluster=options.cluster)
    else:
        endpoint = parse_urls(options.urls, cluster=options.cluster)
    return Link(endpoint, Keys(options.prefix), (options.connect_timeout, options.read_timeout))
