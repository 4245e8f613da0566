"""A client that says exactly what a test gives it, and reads what comes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
import trio

from transport import HttpSurface


@attrs.frozen
class Reply:
    """An answer taken apart."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, raw: bytes) -> Reply:
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")
        protocol, status, *_ = first.split(" ")
        assert protocol == "HTTP/1.1"
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert headers["connection"] == "close"
        return cls(int(status), headers, body)

    @property
    def json(self) -> dict[str, str]:
        assert self.headers["content-type"] == "application/json"
        assert int(self.headers["content-length"]) == len(self.body)
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


def request(method: str, path: str, *lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *lines, "", ""]).encode() + body


async def connect(server: HttpSurface) -> trio.SocketStream:
    assert server.address is not None
    host, port = server.address
    return await trio.open_tcp_stream(host, port)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Everything up to the end. A reset is an error, since it may have eaten the answer."""
    parts: list[bytes | bytearray] = []
    with trio.fail_after(10):
        while part := await stream.receive_some(65536):
            parts.append(part)
    return b"".join(parts)


async def talk(server: HttpSurface, raw: bytes, *, eof: bool = False) -> bytes:
    """Send these bytes over a connection of their own; what comes back."""
    async with await connect(server) as stream:
        await stream.send_all(raw)
        if eof:
            await stream.send_eof()
        return await read_all(stream)


async def ask(server: HttpSurface, method: str, path: str, *lines: str, body: bytes = b"") -> Reply:
    return Reply.of(await talk(server, request(method, path, *lines, body=body)))
