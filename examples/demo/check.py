"""The demo without a browser: what a visitor does, over HTTP."""

from __future__ import annotations

import io
import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from PIL import Image

if TYPE_CHECKING:
    import subprocess

DEADLINE = 50.0
"""Seconds for everything."""


class Failed(Exception):
    """Raised when the demo does not do what it promises; the message says what."""


class Visitor:
    """A browser without a window: cookies, forms, redirects."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def get(self, path: str) -> bytes:
        """A page."""
        with self._opener.open(self.site + path, timeout=10) as answer:
            return bytes(answer.read())

    def post(self, path: str, body: bytes, content_type: str) -> str:
        """Send a form; returns where it led."""
        request = urllib.request.Request(self.site + path, body, {"Content-Type": content_type, "Referer": self.site})
        with self._opener.open(request, timeout=10) as answer:
            return str(answer.url)

    @property
    def token(self) -> str:
        """The form token of the site."""
        return next(str(cookie.value) for cookie in self.cookies if cookie.name == "csrftoken")


def check_site(site: str, children: Sequence[subprocess.Popen[bytes]]) -> int:
    """Upload a picture and see its thumbnails, log in, see the heartbeat; 0 when all of that works."""
    visitor, deadline = Visitor(site), time.monotonic() + DEADLINE

    def until[T](what: str, look: Callable[[], T | None]) -> T:
        return _until(what, look, deadline, children)

    try:
        until("the site answers", lambda: _answers(visitor))
        job = _upload(visitor)
        result = until("the thumbnails are made", lambda: _finished(visitor, job))
        _inspect(visitor, result)
        until("the heartbeat was scheduled", lambda: b"beats, the last one" in visitor.get("/") or None)
        _log_in(visitor)
    except (Failed, urllib.error.URLError) as error:
        print(f"FAILED: {error}")
        return 1
    made = result["value"]
    print(f"job {job}: {result['status']}, {len(made['thumbnails'])} thumbnails in {made['seconds']} s")
    print("The demo works.")
    return 0


def _until[T](
    what: str, look: Callable[[], T | None], deadline: float, children: Sequence[subprocess.Popen[bytes]]
) -> T:
    while True:
        found = look()
        if found is not None:
            return found
        if any(child.poll() is not None for child in children):
            raise Failed(f"a process ended before {what}")
        if time.monotonic() > deadline:
            raise Failed(f"{DEADLINE:.0f} seconds passed before {what}")
        time.sleep(0.1)


def _answers(visitor: Visitor) -> bool | None:
    try:
        return bool(visitor.get("/"))
    except urllib.error.HTTPError:
        raise
    except OSError:
        return None


def _upload(visitor: Visitor) -> str:
    picture = io.BytesIO()
    Image.effect_mandelbrot((1600, 1200), (-2.2, -1.2, 1.0, 1.2), 60).convert("RGB").save(picture, "JPEG")
    boundary = uuid.uuid4().hex
    fields = {"csrfmiddlewaretoken": visitor.token, "title": "A generated picture"}
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\nContent-Type: image/jpeg'
    body = "".join(parts).encode() + f"{file}\r\n\r\n".encode() + picture.getvalue() + f"\r\n--{boundary}--".encode()
    led_to = visitor.post("/", body, f"multipart/form-data; boundary={boundary}")
    if "/jobs/" not in led_to:
        raise Failed(f"the upload led to {led_to} and not to the page of a job")
    return led_to.rstrip("/").rpartition("/")[2]


def _finished(visitor: Visitor, job: str) -> dict[str, Any] | None:
    status: dict[str, Any] = json.loads(visitor.get(f"/jobs/{job}/status.json"))
    return status if status["finished"] else None


def _inspect(visitor: Visitor, result: dict[str, Any]) -> None:
    if result["status"] != "SUCCESSFUL":
        raise Failed(f"the job ended as {result['status']}: {result['errors']}")
    for thumbnail in result["value"]["thumbnails"]:
        image = Image.open(io.BytesIO(visitor.get(thumbnail["url"])))
        if image.size != (thumbnail["width"], thumbnail["height"]):
            raise Failed(f"{thumbnail['url']} is {image.size}")


def _log_in(visitor: Visitor) -> None:
    visitor.get("/admin/login/")
    form = {"csrfmiddlewaretoken": visitor.token, "username": "admin", "password": "admin", "next": "/admin/"}
    led_to = visitor.post("/admin/login/", urlencode(form).encode(), "application/x-www-form-urlencoded")
    if not led_to.endswith("/admin/"):
        raise Failed(f"the login admin/admin led to {led_to}")
    if b"thumbnails" not in visitor.get("/jobs/"):
        raise Failed("the page of jobs does not show the job")
