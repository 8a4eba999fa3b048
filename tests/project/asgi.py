"""The test project as an ASGI application with an embedded worker; `/forever` is a request that never ends."""

from __future__ import annotations

import asyncio
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project.settings")

from django.core.asgi import get_asgi_application

from django_vtasks.asgi import get_worker_application

django_app = get_asgi_application()


async def site(scope, receive, send):
    """Django, and the endless request."""
    if scope["type"] == "http" and scope["path"] == "/forever":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        never = asyncio.ensure_future(asyncio.Event().wait())
        while True:
            await send({"type": "http.response.body", "body": b"more\n", "more_body": True})
            await asyncio.wait([never], timeout=0.1)
    await django_app(scope, receive, send)


application = get_worker_application(site)
