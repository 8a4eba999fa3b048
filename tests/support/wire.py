"""A TCP proxy between a store and its server, which can lose replies and count requests."""

from __future__ import annotations

import selectors
import socket
import threading

from tests.support.servers import LOOPBACK


class Proxy:
    """Forwards to a port. After `lose_next_reply()` the next request still reaches the server, but its reply is lost:
    the client finds the connection closed."""

    def __init__(self, port: int) -> None:
        self._target = (LOOPBACK, port)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lose = threading.Event()
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next_reply(self) -> None:
        """The reply to the next request does not arrive."""
        self._lose.set()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(65536)
                    if key.fileobj is server and self._lose.is_set():
                        self._lose.clear()
                        self.lost += 1
                        return
                    if not data:
                        return
                    key.data.sendall(data)
