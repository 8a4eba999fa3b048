"""PgBouncer in transaction mode, in front of a PostgreSQL that runs already."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.servers import PostgresServer, find_program, free_port, unavailable
from tests.support.waiting import eventually


@contextmanager
def bouncing(url: str, **settings: object) -> Iterator[str]:
    """The URL of a PgBouncer in front of the database of a URL, for as long as the block runs."""
    program = find_program("pgbouncer")
    if program is None:
        unavailable("pgbouncer is missing: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="vtasks-bouncer-", dir="/tmp"))
    bounced = urlsplit(url)._replace(netloc=f"postgres@127.0.0.1:{_configure(folder, url, settings)}").geturl()
    process = subprocess.Popen(
        [str(program), str(folder / "pgbouncer.ini")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=PostgresServer().user,
    )
    try:
        eventually(lambda: _answers(bounced))
        yield bounced
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path, url: str, settings: dict[str, object]) -> int:
    server, port = urlsplit(url), free_port()
    lines = [
        "[databases]",
        f"* = host={server.hostname} port={server.port} user={server.username}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "auth_type = trust",
        f"auth_file = {folder}/users.txt",
        "pool_mode = transaction",
        "unix_socket_dir =",
        *(f"{name} = {value}" for name, value in settings.items()),
    ]
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    return port


def _answers(url: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
