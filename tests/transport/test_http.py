"""The HTTP server: bad input gets a clear answer and harms nobody, and everything is bounded."""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.testing import eventually
from tests.transport._client import Reply, ask, connect, read_all, request, talk
from transport import AcceptFailed, HttpSettings, HttpSettingsInvalid, HttpSurface, NotBound
from transport._http_accept import AcceptPolicy
from transport._http_request import HttpExchange, HttpGone, HttpRefused, HttpRequest

PAGES = {"/ok": lambda: (200, "text/plain", b"fine")}


@asynccontextmanager
async def surface(
    pages: dict[str, Callable[[], tuple[int, str, bytes]]] | None = None,
    *,
    connections: int = 64,
    read_timeout: float = 2.0,
    write_timeout: float = 2.0,
) -> AsyncGenerator[HttpSurface, None]:
    options = HttpSettings(connections=connections, read_timeout=read_timeout, write_timeout=write_timeout)
    server = HttpSurface(options, pages={**PAGES, **(pages or {})})
    async with trio.open_nursery() as nursery:
        await server.bind()
        nursery.start_soon(server.serve)  # noqa: ASYNC113 (it listens already)
        yield server
        server.close()


# -- a request


async def test_a_page_is_read_by_get_and_its_head_by_head() -> None:
    async with surface() as server:
        reply = await ask(server, "GET", "/ok")
        assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"fine", "text/plain")
        assert reply.headers["cache-control"] == "no-store"
        head = await ask(server, "HEAD", "/ok")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "4")
        old = Reply.of(await talk(server, b"GET /ok HTTP/1.0\r\n\r\n"))
        assert old.body == b"fine"


async def test_a_request_may_come_byte_by_byte_and_a_body_may_wait_to_be_wanted() -> None:
    async with surface() as server:
        async with await connect(server) as stream:
            for byte in request("GET", "/ok"):
                await stream.send_all(bytes([byte]))
            assert Reply.of(await read_all(stream)).status == 200
        async with await connect(server) as stream:
            await stream.send_all(request("GET", "/ok", "Content-Length: 3", "Expect: 100-continue"))
            with trio.fail_after(5):
                assert bytes(await stream.receive_some(100)).startswith(b"HTTP/1.1 100 ")
            await stream.send_all(b"yes")
            assert Reply.of(await read_all(stream)).status == 200


async def test_one_connection_carries_one_request() -> None:
    async with surface() as server:
        raw = await talk(server, request("GET", "/ok") * 2)
        assert raw.count(b"HTTP/1.1 ") == 1


GARBAGE = [
    (b"\x00\x01\x02garbage\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, 400),  # a TLS hello
    (b"GET /ok\r\n\r\n", 400),
    (b"GET /ok HTTP/1.1\r\n\r\n", 400),  # no host
    (b"GET /ok HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /ok HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", 400),
    (b"GET /ok HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (b"POST /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"POST /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"GET /ok HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    (b"x" * 100_000, 431),
    (request("POST", "/ok", "Content-Length: 3000") + b"x" * 3000, 413),
    (request("POST", "/ok", "Content-Length: 99999999999") + b"x" * 60_000, 413),
]


@pytest.mark.row("runtime:R127")
@pytest.mark.parametrize(("raw", "status"), GARBAGE, ids=lambda value: repr(value)[:40])
async def test_garbage_is_answered_and_the_next_client_is_served(raw: bytes, status: int) -> None:
    async with surface() as server:
        reply = Reply.of(await talk(server, raw))
        assert reply.status == status
        assert set(reply.json) == {"status"}
        assert (await ask(server, "GET", "/ok")).status == 200


@pytest.mark.row("runtime:R127")
async def test_a_request_that_is_cut_off_is_answered_400_and_none_at_all_is_not_answered() -> None:
    async with surface() as server:
        assert Reply.of(await talk(server, b"GET /ok HTTP/1.1\r\nHost: a\r\n", eof=True)).status == 400
        assert await talk(server, b"", eof=True) == b""
        (await connect(server)).socket.close()
        assert (await ask(server, "GET", "/ok")).status == 200


@pytest.mark.row("runtime:R127")
@pytest.mark.parametrize("sent", [b"", b"GET /ok HTT", b"POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"])
async def test_a_slow_client_is_answered_408_two_seconds_after_it_came(
    autojump_clock: trio.testing.MockClock, sent: bytes
) -> None:
    server = HttpSurface(pages=PAGES)
    client, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.handle, other)
        await client.send_all(sent)
        assert Reply.of(await read_all(client)).status == 408
        assert trio.current_time() == 2.0
        await client.aclose()


@pytest.mark.row("runtime:R127")
async def test_a_client_that_drips_is_not_given_more_time(autojump_clock: trio.testing.MockClock) -> None:
    server = HttpSurface(pages=PAGES)
    client, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.handle, other)

        async def drip() -> None:
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await client.send_all(b"G")
                    await trio.sleep(0.5)

        nursery.start_soon(drip)
        assert Reply.of(await read_all(client)).status == 408
        assert trio.current_time() == 2.0
    assert 3.0 <= trio.current_time() <= 3.5  # after the answer it was heard for a second more, and that was the end


async def test_a_client_that_does_not_take_its_answer_is_left_after_the_time_for_it() -> None:
    big = b"x" * 8_000_000
    async with surface({"/big": lambda: (200, "text/plain", big)}, write_timeout=0.2) as server:
        async with await connect(server) as stream:
            await stream.send_all(request("GET", "/big"))
            await eventually(lambda: server.connections == 1)
            await eventually(lambda: server.connections == 0)
        assert (await ask(server, "GET", "/ok")).status == 200


# -- bounds


@pytest.mark.row("runtime:R127")
async def test_of_65_connections_at_a_time_64_are_open_and_the_last_one_waits_its_turn() -> None:
    async with surface(read_timeout=30) as server:
        streams = [await connect(server) for _ in range(64)]
        await eventually(lambda: server.connections == 64)
        async with trio.open_nursery() as nursery:
            replies: list[Reply] = []

            async def late() -> None:
                replies.append(await ask(server, "GET", "/ok"))

            nursery.start_soon(late)
            await trio.testing.wait_all_tasks_blocked(0.1)
            assert (server.connections, replies) == (64, [])
            await streams.pop().aclose()
        assert replies[0].status == 200
        await eventually(lambda: server.connections == 63)
        async with trio.open_nursery() as nursery:  # those that were open all the time are served too
            for stream in streams:
                nursery.start_soon(stream.send_all, request("GET", "/ok"))
        for stream in streams:
            assert Reply.of(await read_all(stream)).status == 200
            await stream.aclose()
        await eventually(lambda: server.connections == 0)


@pytest.mark.row("runtime:R127")
async def test_65_clients_at_once_are_all_answered() -> None:
    most = 0

    def count() -> tuple[int, str, bytes]:
        nonlocal most
        most = max(most, server.connections)
        return 200, "text/plain", b""

    statuses: list[int] = []

    async def client() -> None:
        statuses.append((await ask(server, "GET", "/count")).status)

    async with surface({"/count": count}, connections=8) as server, trio.open_nursery() as nursery:
        for _ in range(65):
            nursery.start_soon(client)
    assert statuses == [200] * 65
    assert 1 <= most <= 8


# -- pages that fail


@pytest.mark.parametrize(
    "page",
    [
        lambda: 1 / 0,
        lambda: (200, "text/plain\r\nX: y", b""),
        lambda: (99, "text/plain", b""),
        lambda: (200, "text/plain"),
        lambda: (200, "text/plain", "text"),
    ],
    ids=["raises", "splits a header", "no status", "too short", "no bytes"],
)
async def test_a_page_that_fails_is_answered_500_and_is_logged(
    page: Callable[[], tuple[int, str, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    async with surface({"/bad": page}) as server:
        with caplog.at_level(logging.ERROR, "tenure.transport"):
            reply = await ask(server, "GET", "/bad")
        assert (reply.status, reply.json) == (500, {"status": "internal server error"})
        assert caplog.records
        assert (await ask(server, "GET", "/ok")).status == 200


# -- anything at all

REQUESTS = st.sampled_from([request("GET", "/ok"), request("POST", "/ok", "Content-Length: 5", body=b"hello")])
CHUNKED = request("POST", "/ok", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n")


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A good request with some bytes of it replaced, left out or doubled."""
    raw = bytearray(draw(st.one_of(REQUESTS, st.just(CHUNKED))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        end = at + draw(st.integers(0, 3))
        raw[at:end] = draw(st.one_of(st.binary(max_size=3), st.just(bytes(raw[at:end]) * 2)))
    return bytes(raw)


def fed(pieces: list[bytes]) -> HttpRequest | int | None:
    """What the pieces amount to: a request, the status of a refusal, or None for one that is not whole or not there."""
    exchange = HttpExchange(2048)
    try:
        for piece in pieces:
            request_ = exchange.feed(piece)
            if request_ is not None:
                return request_
    except HttpRefused as refused:
        return refused.status
    except HttpGone:
        return None
    return None


@given(st.one_of(st.binary(max_size=300), spoilt()), st.lists(st.integers(0, 300), max_size=5))
@example(CHUNKED, [60])
def test_any_bytes_are_a_request_or_a_refusal_however_they_are_cut(raw: bytes, cuts: list[int]) -> None:
    whole = fed([raw])
    assert whole is None or isinstance(whole, HttpRequest) or whole in (400, 431, 413, 501, 505)
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    pieces = [raw[start:end] for start, end in pairwise(places)]
    assert fed([piece for piece in pieces if piece]) == whole  # an empty piece would be the end of the stream


@pytest.mark.row("runtime:R127")
@pytest.mark.parametrize("cut", [1, 2047, 2048, 2049])
def test_a_request_may_have_2048_bytes_and_no_more(cut: int) -> None:
    def of(size: int) -> bytes:
        return request("GET", "/" + "x" * (size - len(request("GET", "/"))))

    whole, more = of(2048), of(2049)
    assert isinstance(fed([whole]), HttpRequest)
    assert isinstance(fed([whole[:cut], whole[cut:]] if cut < 2048 else [whole]), HttpRequest)
    assert fed([more[:cut], more[cut:]] if cut < 2049 else [more]) == 431
    body = request("POST", "/ok", "Content-Length: 1999")
    assert len(body) < 2048 < len(body) + 1999
    assert fed([body + b"x" * 1999]) == 413


@settings(max_examples=40)
@given(st.lists(st.one_of(st.binary(min_size=1, max_size=4000), spoilt()), min_size=1, max_size=5), st.booleans())
def test_any_bytes_on_a_connection_get_one_answer_and_harm_no_other(raws: list[bytes], eof: bool) -> None:
    async def main() -> None:
        async with surface(read_timeout=30) as server, trio.open_nursery() as nursery:

            async def bad(raw: bytes) -> None:
                answer = b""
                with trio.move_on_after(inf if eof else 0.02):  # without an end the server waits for more: leave it
                    answer = await talk(server, raw, eof=eof)
                if answer:
                    assert Reply.of(answer).status in (200, 400, 404, 405, 408, 413, 431, 501, 505)
                    assert answer.count(b"HTTP/1.1 ") <= 2  # and 100 before it

            for raw in raws:
                if b"100-continue" not in raw:
                    nursery.start_soon(bad, raw)
            assert (await ask(server, "GET", "/ok")).status == 200

    trio.run(main)


# -- accepting


def test_the_pause_doubles_from_10_ms_to_a_second_and_64_failures_in_a_row_are_the_end() -> None:
    policy = AcceptPolicy()
    pauses = [policy.failed(errno.EMFILE) for _ in range(64)]
    assert pauses[:8] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    assert pauses[8:63] == [1.0] * 55
    assert pauses[63] is None


def test_a_connection_between_failures_ends_the_row_and_a_broken_connection_counts_for_nothing() -> None:
    policy = AcceptPolicy()
    for _ in range(3):
        for _ in range(63):
            assert policy.failed(errno.ENFILE) is not None
        policy.accepted()
    assert policy.failed(errno.ENFILE) == 0.01
    for _ in range(1000):
        assert policy.failed(errno.ECONNABORTED) == 0.0
    assert policy.failed(errno.ENFILE) == 0.02
    assert policy.failed(errno.EBADF) is None
    assert AcceptPolicy().failed(None) == 0.01


class BadListener:
    """Fails as it is told, then gives the streams that it was given, then waits."""

    def __init__(self, errors: list[int], streams: list[trio.testing.MemorySendStream]) -> None:
        self.errors = errors
        self.streams = streams

    async def accept(self) -> object:
        await trio.lowlevel.checkpoint()
        if self.errors:
            raise OSError(self.errors.pop(0), "planted")
        if self.streams:
            return self.streams.pop(0)
        await trio.sleep_forever()
        return None


@pytest.mark.parametrize(("errors", "seconds", "failures"), [([errno.EMFILE] * 64, 57.27, 64), ([errno.EBADF], 0, 1)])
async def test_a_listener_beyond_help_fails_the_server(
    autojump_clock: trio.testing.MockClock, errors: list[int], seconds: float, failures: int
) -> None:
    server = HttpSurface(name="probe")
    server._bound = True
    server._listener = BadListener(errors, [])  # type: ignore[assignment]
    server._listener.socket = trio.socket.socket()  # type: ignore[union-attr]
    with pytest.raises(AcceptFailed) as failed:
        await server.serve()
    assert (failed.value.server, failed.value.failures) == ("probe", failures)
    assert isinstance(failed.value.__cause__, OSError)
    assert trio.current_time() == pytest.approx(seconds, abs=1)


async def test_after_errors_of_accept_connections_are_served(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = HttpSurface(HttpSettings(connections=1), pages=PAGES)
    client, other = trio.testing.memory_stream_pair()
    server._bound = True
    server._listener = BadListener([errno.EMFILE] * 3 + [errno.ECONNABORTED] * 5, [other])  # type: ignore[assignment, list-item]
    server._listener.socket = trio.socket.socket()  # type: ignore[union-attr]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve)
        await client.send_all(request("GET", "/ok"))
        assert Reply.of(await read_all(client)).status == 200
        assert trio.current_time() == pytest.approx(0.07)
        nursery.cancel_scope.cancel()
    assert caplog.text.count("cannot accept a connection") == 1
    assert server.connections == 0


# -- the steps


async def test_a_server_serves_after_its_bind_and_can_be_bound_again() -> None:
    server = HttpSurface(pages=PAGES)
    with pytest.raises(NotBound):
        await server.serve()
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            await eventually(lambda: server.address)
            assert (await ask(server, "GET", "/ok")).status == 200
            server.close()
            server.close()
            assert server.address is None
    with pytest.raises(NotBound):
        await server.serve()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", "localhost"), ("host", ""), ("host", 1), ("port", -1), ("port", 65536), ("port", True),
        ("connections", 0), ("request_bytes", 255), ("read_timeout", 0), ("write_timeout", inf), ("read_timeout", "2"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(HttpSettingsInvalid, match=field):
        HttpSettings(**{field: value})  # type: ignore[arg-type]


def test_an_address_may_be_of_the_sixth_version() -> None:
    found = HttpSettings.at("[::1]:8080")
    assert (found.host, found.port, found.loopback) == ("::1", 8080, True)
    assert not HttpSettings.at("0.0.0.0:1").loopback
