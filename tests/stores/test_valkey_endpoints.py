"""Where the server is: URLs and CACHES entries, read without a server."""

from __future__ import annotations

import ssl

import pytest

from django_vtasks.jobs.errors import InvalidOptions
from django_vtasks.stores.valkey.caches import endpoint_of_cache
from django_vtasks.stores.valkey.endpoints import Endpoint, Kind, parse_url, parse_urls, tls_arguments
from django_vtasks.stores.valkey.keys import slot_of


class TestUrls:
    @pytest.mark.parametrize("scheme", ["redis", "valkey"])
    def test_a_plain_url_names_host_port_and_database(self, scheme):
        endpoint = parse_url(f"{scheme}://cache.example:6380/3")
        assert (endpoint.addresses, endpoint.db, endpoint.tls) == ((("cache.example", 6380),), 3, None)

    def test_what_a_url_leaves_out_is_usual(self):
        assert parse_url("valkey://") == Endpoint(addresses=(("localhost", 6379),), username=None, password=None)

    def test_credentials_may_be_quoted(self):
        endpoint = parse_url("redis://us%40er:p%2Fss%3A@h")
        assert (endpoint.username, endpoint.password) == ("us@er", "p/ss:")

    def test_the_database_may_stand_in_the_query(self):
        assert parse_url("redis://h?db=4").db == 4

    def test_ipv6_hosts_keep_their_colons(self):
        assert parse_url("redis://[::1]:6390/0").addresses == (("::1", 6390),)

    @pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
    def test_tls_verifies_unless_told(self, scheme):
        endpoint = parse_url(f"{scheme}://h?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k.pem")
        assert tls_arguments(endpoint.tls) == {
            "ssl_ca_certs": "/ca.pem",
            "ssl_certfile": "/c.pem",
            "ssl_keyfile": "/k.pem",
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
        }

    @pytest.mark.parametrize("wanted", ["none", "CERT_NONE", ssl.CERT_NONE, None])
    def test_tls_without_verification_checks_no_host_name_either(self, wanted):
        arguments = tls_arguments({"ssl_cert_reqs": wanted})
        assert (arguments["ssl_cert_reqs"], arguments["ssl_check_hostname"]) == ("none", False)

    def test_a_unix_socket_has_a_path_and_a_database(self):
        endpoint = parse_url("unix://user:secret@/run/valkey.sock?db=2")
        assert (endpoint.kind, endpoint.path, endpoint.db) == (Kind.UNIX, "/run/valkey.sock", 2)
        assert endpoint.password == "secret"

    @pytest.mark.parametrize("scheme", ["sentinel", "redis+sentinel", "valkey+sentinel"])
    def test_a_sentinel_url_names_sentinels_service_and_database(self, scheme):
        endpoint = parse_url(f"{scheme}://u:p@s1:26380,s2/prime/5?sentinel_username=su&sentinel_password=sp")
        assert endpoint.kind is Kind.SENTINEL
        assert endpoint.addresses == (("s1", 26380), ("s2", 26379))
        assert (endpoint.service, endpoint.db, endpoint.username, endpoint.password) == ("prime", 5, "u", "p")
        assert (endpoint.sentinel_username, endpoint.sentinel_password) == ("su", "sp")

    def test_a_sentinel_url_may_ask_for_tls(self):
        assert parse_url("rediss+sentinel://s1/prime").tls == {}

    def test_a_sentinel_url_split_at_its_commas_is_one_again(self):
        whole = parse_urls(["sentinel://s1:1,s2:2/prime"], cluster=False)
        assert whole == parse_urls(["sentinel://s1:1", "s2:2/prime"], cluster=False)
        assert whole.addresses == (("s1", 1), ("s2", 2))

    @pytest.mark.parametrize(
        "urls", [["redis://a:1,redis://b:2"], ["redis://a:1", "redis://b:2"], ["redis://a:1/5, redis://b:2"]]
    )
    def test_a_cluster_is_named_by_several_urls_and_has_one_database(self, urls):
        endpoint = parse_urls(urls, cluster=True)
        assert (endpoint.kind, endpoint.addresses, endpoint.db) == (Kind.CLUSTER, (("a", 1), ("b", 2)), 0)

    def test_several_urls_need_cluster_mode(self):
        with pytest.raises(InvalidOptions, match="CLUSTER_MODE"):
            parse_urls(["redis://a,redis://b"], cluster=False)

    @pytest.mark.parametrize(
        ("url", "hint"),
        [
            ("http://user:hunter2@h", "begins with one of .*valkeys"),
            ("h:6379", "begins with one of"),
            ("redis://user:hunter2@h:port", "port"),
            ("redis://user:hunter2@h/zero", "database number"),
            ("redis://user:hunter2@h?ssl_certs=x", "unknown options .*: ssl_certs; known: .*ssl_ca_certs"),
            ("sentinel://:hunter2@h1,h2", "names the service"),
        ],
    )
    def test_a_wrong_url_is_explained_without_its_password(self, url, hint):
        with pytest.raises(InvalidOptions, match=hint) as raised:
            parse_urls([url], cluster=False)
        assert "hunter2" not in str(raised.value)

    def test_no_url_is_explained(self):
        with pytest.raises(InvalidOptions, match="BROKER_URL or cache_alias"):
            parse_urls([], cluster=False)

    @pytest.mark.parametrize(
        "url",
        [
            "redis://user:hunter2@h:1/0",
            "valkeys://:hunter2@h:1/0",
            "unix://:hunter2@/run/v.sock",
            "sentinel://:hunter2@s/prime?sentinel_password=hunter2",
        ],
    )
    def test_a_password_is_never_shown(self, url):
        endpoint = parse_url(url)
        assert endpoint.password == "hunter2"
        assert "hunter2" not in repr(endpoint) + str(endpoint)
        assert "***" in str(endpoint)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("valkeys://h:1/2", "valkeys://h:1/2"),
            ("rediss://:pw@h:1", "rediss://:***@h:1/0"),
            ("redis://h", "redis://h:6379/0"),
            ("redis+sentinel://h/prime", "redis+sentinel://h:26379/prime/0"),
            ("unix:///run/v.sock", "unix:///run/v.sock"),
        ],
    )
    def test_what_is_shown_has_the_scheme_that_was_given(self, url, shown):
        assert str(parse_url(url)) == shown


class TestCaches:
    """`cache_alias` reads the settings of four cache packages."""

    def test_djangos_own(self):
        entry = {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": ["redis://user:pw@primary:6379", "redis://replica:6379"],
            "OPTIONS": {"db": "7"},
        }
        assert endpoint_of_cache(entry, cluster=False) == Endpoint(
            addresses=(("primary", 6379),), username="user", password="pw", db=7
        )

    @pytest.mark.parametrize("separator", [",", ";"])
    def test_djangos_own_with_several_servers_in_one_text(self, separator):
        entry = {"LOCATION": f"redis://primary:1{separator}redis://replica:2"}
        assert endpoint_of_cache(entry, cluster=False).addresses == (("primary", 1),)

    @pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
    def test_django_redis_and_django_valkey(self, scheme):
        entry = {
            "LOCATION": f"{scheme}://h:6379/1",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.DefaultClient",
                "PASSWORD": "pw",
                "CONNECTION_POOL_KWARGS": {"username": "u", "ssl_ca_certs": "/ca.pem", "max_connections": 50},
            },
        }
        endpoint = endpoint_of_cache(entry, cluster=False)
        assert (endpoint.username, endpoint.password, endpoint.db) == ("u", "pw", 1)
        assert endpoint.tls == {"ssl_ca_certs": "/ca.pem"}

    def test_django_redis_behind_sentinels(self):
        entry = {
            "LOCATION": "redis://prime/2",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "SENTINELS": [("s1", 26379), ("s2", 26380)],
                "SENTINEL_KWARGS": {"password": "sp"},
                "PASSWORD": "pw",
            },
        }
        endpoint = endpoint_of_cache(entry, cluster=False)
        assert (endpoint.kind, endpoint.service, endpoint.db) == (Kind.SENTINEL, "prime", 2)
        assert endpoint.addresses == (("s1", 26379), ("s2", 26380))
        assert (endpoint.password, endpoint.sentinel_password) == ("pw", "sp")

    def test_django_vcache(self):
        entry = {
            "BACKEND": "django_vcache.backend.ValkeyCache",
            "LOCATION": "valkeys://:pw@h:6379/1",
            "OPTIONS": {"ssl_ca_certs": "/ca.pem", "ssl_certfile": "/c.pem", "ssl_keyfile": "/k.pem"},
        }
        endpoint = endpoint_of_cache(entry, cluster=False)
        assert endpoint.tls == {"ssl_ca_certs": "/ca.pem", "ssl_certfile": "/c.pem", "ssl_keyfile": "/k.pem"}

    def test_django_vcache_behind_sentinels_with_tls(self):
        entry = {
            "LOCATION": "sentinel://:pw@s1:26379,s2:26379/prime/0?sentinel_password=sp",
            "OPTIONS": {"ssl_ca_certs": "/ca.pem"},
        }
        endpoint = endpoint_of_cache(entry, cluster=False)
        assert (endpoint.kind, endpoint.service, len(endpoint.addresses)) == (Kind.SENTINEL, "prime", 2)
        assert endpoint.tls == {"ssl_ca_certs": "/ca.pem"}

    def test_django_vcache_on_a_cluster(self):
        entry = {"LOCATION": "redis://a:1,redis://b:2", "OPTIONS": {"CLUSTER_MODE": True}}
        endpoint = endpoint_of_cache(entry, cluster=False)
        assert (endpoint.kind, endpoint.addresses) == (Kind.CLUSTER, (("a", 1), ("b", 2)))

    def test_a_unix_socket(self):
        assert endpoint_of_cache({"LOCATION": "unix:///run/v.sock?db=1"}, cluster=False).path == "/run/v.sock"

    @pytest.mark.parametrize("entry", [{"LOCATION": "127.0.0.1:11211"}, {"LOCATION": ""}, {}])
    def test_a_cache_of_another_kind_is_explained(self, entry):
        with pytest.raises(InvalidOptions, match="no Valkey or Redis server"):
            endpoint_of_cache(entry, cluster=False)

    def test_rotating_credentials_are_explained(self):
        entry = {"LOCATION": "valkeys://h", "OPTIONS": {"credential_provider": lambda: ("u", "p")}}
        with pytest.raises(InvalidOptions, match="credential_provider"):
            endpoint_of_cache(entry, cluster=False)


class TestSlots:
    @pytest.mark.parametrize(("prefix", "slot"), [("{vt}:", 7404), ("{foo}:", 12182), ("a{b}c", 3300)])
    def test_the_hash_tag_decides_the_slot(self, prefix, slot):
        assert slot_of(prefix) == slot

    @pytest.mark.parametrize("prefix", ["vt:", "{}:", ""])
    def test_a_prefix_without_a_tag_is_refused(self, prefix):
        with pytest.raises(InvalidOptions, match="hash tag"):
            slot_of(prefix)
