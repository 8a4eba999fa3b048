"""The test machinery itself: servers start, keep their data over a restart, and databases are migrated."""

from __future__ import annotations

import pytest
from django.db import connections


@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param("clean_valkey", marks=pytest.mark.valkey),
        pytest.param("clean_redis", marks=pytest.mark.redis),
    ],
)
def test_a_restarted_key_value_server_keeps_its_port_and_its_keys(request, fixture):
    server = request.getfixturevalue(fixture)
    assert server.call("SET answer 42") == b"+OK"
    port = server.port
    server.restart()
    assert (server.port, server.call("GET answer")) == (port, b"$2")


def test_each_vendor_has_a_migrated_database(database_alias):
    with connections[database_alias].cursor() as cursor:
        tables = connections[database_alias].introspection.table_names(cursor)
    assert "django_migrations" in tables
