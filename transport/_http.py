"""A small HTTP/1.1 server for probes, metrics and pages: one request for each connection, everything bounded."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Protocol

import trio

from ._admin_token import AdminToken
from ._errors import AcceptFailed, ListenFailed, NotBound
from ._http_accept import AcceptPolicy
from ._http_request import HttpAnswer, HttpExchange, HttpGone, HttpRefused, HttpRequest, refusal
from ._http_routes import HttpPage, HttpRoutes
from ._http_settings import HttpSettings

if TYPE_CHECKING:
    from trio.abc import HalfCloseableStream

LINGER_SECONDS = 1.0
LINGER_BYTES = 65536
"""How long, and over how much, the rest of a request is read after the answer. Closing over unread bytes would reset
the connection, and take the answer from the client."""

_log = logging.getLogger("tenure.transport")


class _Listener(Protocol):
    async def accept(self) -> HalfCloseableStream: ...


class HttpSurface:
    """An HTTP server. `run` it, or give it to `ServiceLifecycle.start`, which calls `bind`, `serve` and `close`.

    `pages` are read by GET and HEAD, `actions` are done by POST, with `Authorization: Bearer` and the admin token,
    which is in a file; without the file every POST is refused. Bad input is answered and ends its own connection only.
    """

    def __init__(
        self,
        settings: HttpSettings | None = None,
        *,
        pages: Mapping[str, HttpPage] | None = None,
        actions: Mapping[str, HttpPage] | None = None,
        admin_token_file: str | os.PathLike[str] | None = None,
        name: str = "http",
    ) -> None:
        self._settings = HttpSettings() if settings is None else settings
        self._routes = HttpRoutes(pages or {}, actions or {})
        self._token_file = admin_token_file
        self._token: AdminToken | None = None
        self._name = name
        self._listener: trio.SocketListener | None = None
        self._address: tuple[str, int] | None = None
        self._bound = False
        self._closed = False
        self._interruptible: set[trio.CancelScope] = set()
        self._connections = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} at {self._address}, {self._connections} connections>"

    @property
    def name(self) -> str:
        """The name of the server's task."""
        return self._name

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port that it listens on; None while it does not."""
        return self._address

    @property
    def connections(self) -> int:
        """How many connections are open now; never more than `HttpSettings.connections`."""
        return self._connections

    # -- the three steps

    async def bind(self) -> None:
        """Read the token and listen. Raises `AdminTokenRefused` or `ListenFailed`, with nothing left open; may be
        called again. A checkpoint; cancelling it leaves nothing open."""
        self.close()
        self._token = None if self._token_file is None else await AdminToken.read(self._token_file)
        host, port = self._settings.host, self._settings.port
        try:
            (self._listener,) = await trio.open_tcp_listeners(port, host=host)
        except OSError as exc:
            raise ListenFailed(host, port, exc.strerror or type(exc).__name__) from exc
        self._closed = False
        self._bound = True
        name = self._listener.socket.getsockname()
        self._address = (str(name[0]), int(name[1]))
        if self._token is not None and not self._settings.loopback:
            _log.warning("%s listens on %s: the admin token crosses the network in clear", self._name, host)

    async def serve(self) -> None:
        """Answer until `close`, then finish the answers in hand and return; at once if `close` came first.

        Raises `NotBound`, and `AcceptFailed` when the listener is beyond help. Cancelling it ends every connection.
        """
        bound, self._bound = self._bound, False
        if not bound:
            raise NotBound(self._name)
        listener = self._listener
        if listener is None:
            await trio.lowlevel.checkpoint()
            return
        try:
            async with trio.open_nursery() as nursery:
                failure = await self._accept(listener, nursery)
                if failure is not None:
                    nursery.cancel_scope.cancel()
        finally:
            self.close()
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Stop listening and end every connection that has not sent its request. Sync; may be called at any time."""
        self._closed = True
        listener, self._listener, self._address = self._listener, None, None
        if listener is not None:
            listener.socket.close()
        for scope in self._interruptible:
            scope.cancel()

    async def run(self) -> None:
        """`bind`, then `serve`."""
        await self.bind()
        await self.serve()

    # -- connections

    async def _accept(self, listener: _Listener, nursery: trio.Nursery) -> AcceptFailed | None:
        slots = trio.Semaphore(self._settings.connections)
        policy = AcceptPolicy()
        while not self._closed:
            await slots.acquire()
            try:
                stream = await listener.accept()
            except trio.ClosedResourceError:
                return None
            except OSError as exc:
                slots.release()
                pause = policy.failed(exc.errno)
                if pause is None:
                    failure = AcceptFailed(self._name, policy.failures)
                    failure.__cause__ = exc
                    return failure
                if policy.failures == 1:
                    _log.warning("%s cannot accept a connection and tries again: %r", self._name, exc)
                with self._until_close(inf):
                    await trio.sleep(pause)
            else:
                policy.accepted()
                nursery.start_soon(self._in_slot, slots, stream)
        return None

    async def _in_slot(self, slots: trio.Semaphore, stream: HalfCloseableStream) -> None:
        self._connections += 1
        try:
            await self.handle(stream)
        finally:
            self._connections -= 1
            slots.release()

    async def handle(self, stream: HalfCloseableStream) -> None:
        """Answer one request on `stream` and close it. Raises nothing but `Cancelled`."""
        try:
            async with stream:
                await self._exchange(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        except Exception:
            _log.exception("%s: a connection failed", self._name)

    async def _exchange(self, stream: HalfCloseableStream) -> None:
        exchange = HttpExchange(self._settings.request_bytes)
        try:
            request = await self._read(stream, exchange)
            answer = self._routes.answer(request, self._token)
        except HttpGone:
            return
        except HttpRefused as exc:
            answer = refusal(exc.status)
        with trio.move_on_after(self._settings.write_timeout) as scope:
            await stream.send_all(self._render(exchange, answer))
            await stream.send_eof()
        if not scope.cancelled_caught:
            await self._linger(stream)

    async def _read(self, stream: HalfCloseableStream, exchange: HttpExchange) -> HttpRequest:
        with self._until_close(self._settings.read_timeout):
            while True:
                request = exchange.feed(bytes(await stream.receive_some(exchange.room)))
                if request is not None:
                    return request
                proceed = exchange.proceed()
                if proceed:
                    await stream.send_all(proceed)
        if self._closed:
            raise HttpGone
        raise HttpRefused(408)

    def _render(self, exchange: HttpExchange, answer: HttpAnswer) -> bytes:
        try:
            return exchange.render(answer)
        except Exception:
            _log.exception("%s: a page made an answer that cannot be sent", self._name)
            return HttpExchange(self._settings.request_bytes).render(refusal(500))

    async def _linger(self, stream: HalfCloseableStream) -> None:
        left = LINGER_BYTES
        with self._until_close(LINGER_SECONDS):
            while left > 0:
                data = await stream.receive_some(4096)
                if not data:
                    return
                left -= len(data)

    @contextmanager
    def _until_close(self, within: float) -> Generator[None, None, None]:
        """A scope that ends after `within` seconds, and at once when the server is closed."""
        with trio.move_on_after(within) as scope:
            if self._closed:
                scope.cancel()
            self._interruptible.add(scope)
            try:
                yield
            finally:
                self._interruptible.discard(scope)
