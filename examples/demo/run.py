"""Start the demo: migrate, make a login, run the site and one worker; Ctrl-C ends everything.

`--check` does the same without a browser: it uploads a picture, waits for its thumbnails, and exits with 0 or 1.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOOPBACK = "127.0.0.1"
GRACE = 15.0
"""Seconds that a child has to end by itself."""


def main() -> int:
    """Run the demo until Ctrl-C, or check it."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, _interrupt)
    if options.check:
        with tempfile.TemporaryDirectory(prefix="vtasks-demo-") as folder:
            return _run(Path(folder), _free_port(), check=True)
    return _run(Path(options.folder), _port(options.port), check=False)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="upload, wait for the result, exit")
    parser.add_argument("--port", type=int, default=8000, help="port of the site (8000; a free one if taken)")
    parser.add_argument("--folder", default=ROOT / ".demo", help="where database and pictures are (.demo)")
    return parser.parse_args()


def _interrupt(*_args: object) -> None:
    raise KeyboardInterrupt


def _run(folder: Path, port: int, *, check: bool) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "DEMO_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "gallery.settings",
        "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
    }
    children: list[subprocess.Popen[bytes]] = []
    try:
        _prepare()
        with (folder / "log.txt").open("wb") as log:
            children.append(_start(log, "runserver", f"{LOOPBACK}:{port}", "--noreload", "--skip-checks"))
            children.append(_start(log if check else None, "runworker", "--scheduler"))
        return _check(port, children, folder / "log.txt") if check else _wait(port, children)
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(children)


def _prepare() -> None:
    """Migrate and make the login, here and not in a child: a wrong set-up shows its own error."""
    sys.path[:0] = [str(HERE), str(ROOT / "src")]
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User
    from django.db import connections

    if not User.objects.filter(username="admin").exists():
        User.objects.create_superuser("admin", "", "admin")
    connections.close_all()


def _start(log: BinaryIO | None, *arguments: str) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches this process alone, which then ends the children in order.
    command = [sys.executable, str(HERE / "manage.py"), *arguments]
    return subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


def _check(port: int, children: list[subprocess.Popen[bytes]], log: Path) -> int:
    from check import check_site

    code = check_site(f"http://{LOOPBACK}:{port}", children)
    if code:
        print(log.read_text(errors="replace"))
    return code


def _wait(port: int, children: list[subprocess.Popen[bytes]]) -> int:
    print(
        f"""
  Site     http://{LOOPBACK}:{port}/          upload a picture and watch the worker
  Jobs     http://{LOOPBACK}:{port}/jobs/
  Admin    http://{LOOPBACK}:{port}/admin/    user admin, password admin

  Ctrl-C ends all of it.
""",
        flush=True,
    )
    while all(child.poll() is None for child in children):
        time.sleep(0.3)
    ended = next(child for child in children if child.poll() is not None)
    print(f"{' '.join(map(str, ended.args[2:]))} ended by itself with exit code {ended.returncode}", file=sys.stderr)
    return 1


def _stop(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            child.terminate()
    for child in children:
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except OSError:
            print(f"Port {wanted} is taken, using a free one.")
            return _free_port()
    return wanted


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
