"""Health for the outside: a file that is rewritten while all is well, and an HTTP endpoint. Both from threads."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .health import Health

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

logger = logging.getLogger("django_vtasks.worker")

FILE_INTERVAL = 5.0
NO_METRICS = b"no metrics without prometheus-client: pip install 'django-vtasks[metrics]'\n"
"""An empty page with 200 would be a target that is up, and alerts on it that never fire."""


class HealthFile:
    """Rewrites a file with the epoch seconds every five seconds, while the worker is healthy. Stale means ill."""

    def __init__(self, path: str, health: Health, *, every: float = FILE_INTERVAL) -> None:
        self._path = Path(path)
        self._health = health
        self._every = every
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._complained = False

    def start(self) -> None:
        """Write it now and then."""
        self._thread = threading.Thread(target=self._run, name="vtasks-health-file", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more; the file stays and grows stale."""
        self._stop.set()

    def remove(self) -> None:
        """Write no more, and take the file away."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._health.report().healthy:
                self._write()
            self._stop.wait(self._every)

    def _write(self) -> None:
        # Replaced in one step, so that no probe reads half a number.
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            beside.write_text(f"{time.time():.6f}")
            beside.replace(self._path)
        except OSError as error:
            if not self._complained:
                self._complained = True
                logger.error("The health file %s cannot be written: %s", self._path, error)


class HealthServer:
    """Answers `/livez`, `/readyz` and `/metrics` from threads of its own, whatever the event loop does."""

    def __init__(self, port: int, health: Health, metrics: Callable[[], tuple[bytes, str] | None]) -> None:
        self._port = port
        self._health = health
        self._metrics = metrics
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> int:
        """Listen; returns the port. Raises OSError when it is taken."""
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, content_type, body = answer(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, code: Any = "-", _size: Any = "-") -> None:
                logger.debug("health: %s %s", self.path, code)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = server = Server(("", self._port), Handler)
        threading.Thread(target=server.serve_forever, name="vtasks-health-http", daemon=True).start()
        return int(server.server_address[1])

    def stop(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server is not None:
            # Its loop looks up twice a second; nobody waits for that.
            threading.Thread(target=_shut, args=(server,), name="vtasks-health-end", daemon=True).start()

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            page = self._metrics()
            return (501, "text/plain; charset=utf-8", NO_METRICS) if page is None else (200, page[1], page[0])
        report = self._health.report()
        if path in {"/livez", "/healthz"}:
            good = report.healthy
        elif path == "/readyz":
            good = report.ready
        else:
            return 404, "text/plain; charset=utf-8", b"try /livez, /readyz or /metrics\n"
        return 200 if good else 503, "application/json", json.dumps(report.as_json()).encode()


def _shut(server: "ThreadingHTTPServer") -> None:
    server.shutdown()
    server.server_close()
