"""`manage.py vtasks_health`: exits 0 when a worker is healthy, 1 when it is not; for container probes."""

import json
import os
import re
import time
import urllib.error
import urllib.request
from glob import escape, glob
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...conf import PID, settings
from ..numbers import seconds, whole

DEFAULT_MAX_AGE = 15.0


class Command(BaseCommand):
    """Asks a worker's health file or port."""

    help = "Exit 0 when the worker of this host is healthy, 1 when it is not."
    requires_system_checks: Any = []

    def add_arguments(self, parser: CommandParser) -> None:
        """The flags; file and port default to the settings."""
        parser.add_argument("--file", metavar="PATH", help="the health file (default: VTASKS_HEALTH_CHECK_FILE)")
        parser.add_argument("--max-age", type=seconds, default=DEFAULT_MAX_AGE, metavar="S", help="when it is stale")
        hint = "the health port (default: VTASKS_HEALTH_PORT)"
        parser.add_argument("--port", type=whole(1, 65_535), metavar="PORT", help=hint)
        parser.add_argument("--ready", action="store_true", help="ask the port for readiness instead of liveness")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Say what was found. Raises CommandError when the worker is not healthy, or nothing can be asked."""
        path = options["file"] or settings.VTASKS_HEALTH_CHECK_FILE
        port = options["port"] or settings.VTASKS_HEALTH_PORT
        if options["file"] or (path and not port):
            self.stdout.write(_from_files(str(path), options["max_age"]))
        elif port:
            self.stdout.write(_from_port(int(port), "readyz" if options["ready"] else "livez"))
        else:
            raise CommandError("Nothing to ask: give --file or --port, or set VTASKS_HEALTH_CHECK_FILE.")


def _from_files(path: str, max_age: float) -> str:
    """Of one process; or of every process on this host that lives and has a file, where the path has `{pid}`."""
    if PID not in path:
        return _from_file(Path(path), max_age)
    pattern = re.compile(re.escape(path).replace(re.escape(PID), r"(\d+)"))
    matches = [pattern.fullmatch(name) for name in sorted(glob(escape(path).replace(PID, "*")))]
    living = [(match[1], match[0]) for match in matches if match and _lives(int(match[1]))]
    texts = [f"process {pid}: {_from_file(Path(name), max_age)}" for pid, name in living]
    if not texts:
        raise CommandError(f"There is no health file {path} of a process that lives.")
    return "\n".join(texts)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _from_file(path: Path, max_age: float) -> str:
    try:
        age = time.time() - float(path.read_text())
    except FileNotFoundError:
        raise CommandError(f"There is no health file {path}: no worker has been healthy yet.") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"The health file {path} cannot be read: {error}") from error
    if age > max_age:
        raise CommandError(f"The health file {path} is stale: written {age:.0f} s ago.")
    return f"healthy, {max(0.0, age):.0f} s ago"


def _from_port(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        with error:
            raise CommandError(f"The worker is not healthy: {_problems(error.read())}") from error
    except OSError as error:
        raise CommandError(f"No worker answers on port {port}: {error}") from error
    return "healthy"


def _problems(body: bytes) -> str:
    try:
        subsystems = json.loads(body)["subsystems"]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:500]
    found = [f"{name}: {state['problem']}" for name, state in subsystems.items() if state["problem"]]
    down = [f"{name}: no store" for name, state in subsystems.items() if state["down_for"] is not None]
    return "; ".join(found or down or ["it is stopping"])
