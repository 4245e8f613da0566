"""One request and its answer as bytes. Sans-I/O, on h11: bytes in, request or refusal out; answer in, bytes out."""

from __future__ import annotations

import json
from typing import final

import attrs
import h11


@attrs.frozen
class HttpRequest:
    """A request that has arrived whole."""

    method: str
    path: str
    """Without the query, as it was sent."""
    headers: tuple[tuple[bytes, bytes], ...]
    """Names are in lower case."""
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` in lower case."""
        return next((value for key, value in self.headers if key == name), None)


@attrs.frozen
class HttpAnswer:
    """What is sent back. The headers that frame it are added by the server."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class HttpRefused(Exception):
    """The bytes of a client are no request that is served. `status` says why."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class HttpGone(Exception):
    """The client closed before it asked anything."""


REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 413: "Content Too Large", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 501: "Not Implemented", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
}  # fmt: skip


def json_body(**fields: str) -> bytes:
    """`fields` as one JSON object on a line."""
    return json.dumps(fields).encode() + b"\n"


def refusal(status: int, headers: tuple[tuple[str, str], ...] = ()) -> HttpAnswer:
    """The answer that says no more than its status."""
    return HttpAnswer(status, "application/json", json_body(status=REASONS.get(status, "Error").lower()), headers)


@final
class HttpExchange:
    """The bytes of one connection, which carries one request."""

    def __init__(self, request_bytes: int) -> None:
        self._limit = request_bytes
        self._received = 0
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=request_bytes)
        self._head: h11.Request | None = None
        self._body = bytearray()

    @property
    def room(self) -> int:
        """How many bytes to read next at most: one more than may come."""
        return self._limit - self._received + 1

    def feed(self, data: bytes) -> HttpRequest | None:
        """Take bytes, none at the end of the stream; the request once it is whole. Raises `HttpRefused`, `HttpGone`."""
        left = self._limit - self._received
        self._received += len(data)
        try:
            if left or not data:  # no bytes would be the end of the stream
                self._connection.receive_data(data[:left])
            request = self._next()
        except h11.RemoteProtocolError as exc:
            raise HttpRefused(exc.error_status_hint) from None
        if request is None and len(data) > left:
            raise HttpRefused(431 if self._head is None else 413)
        return request

    def _next(self) -> HttpRequest | None:
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Request):
                if event.http_version not in (b"1.0", b"1.1"):
                    raise HttpRefused(505)
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return self._request()
            else:
                raise HttpGone

    def _request(self) -> HttpRequest:
        head = self._head
        assert head is not None, "h11 ends no message that it did not begin"
        path = head.target.decode("latin-1").partition("?")[0]
        return HttpRequest(head.method.decode("ascii"), path, tuple(head.headers), bytes(self._body))

    def proceed(self) -> bytes:
        """What to send to a client that waits to be told to go on with its body; mostly nothing."""
        if not self._connection.they_are_waiting_for_100_continue:
            return b""
        return self._connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b""

    def render(self, answer: HttpAnswer) -> bytes:
        """The whole answer. Raises `h11.LocalProtocolError` for one that HTTP cannot carry, with nothing sent."""
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            *answer.headers,
        ]
        reason = REASONS.get(answer.status, "")
        response = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        parts = [self._connection.send(response)]
        if self._head is None or self._head.method != b"HEAD":
            parts.append(self._connection.send(h11.Data(data=answer.body)))
        parts.append(self._connection.send(h11.EndOfMessage()))
        return b"".join(part for part in parts if part)
