"""The probes over real sockets: what a service says of itself, who may drain it, and a start that fails."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.testing import eventually
from lifecycle import RuntimeConfig, ServiceContext, ServiceLifecycle, open_runtime
from tests.transport._client import Reply, ask, connect, read_all, request
from transport import AdminTokenRefused, HttpSettings, HttpSettingsInvalid, ListenFailed, ProbeServer, TransportError

QUIET = RuntimeConfig(signals=False, shutdown_within=10)
TOKEN = "correct-horse-battery"
BEARER = f"Authorization: Bearer {TOKEN}"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "admin-token"
    path.write_text(f"  {TOKEN}\n")
    path.chmod(0o600)
    return path


@asynccontextmanager
async def serving(
    token: Path | None = None, read_timeout: float = 2.0
) -> AsyncGenerator[tuple[ServiceContext, ServiceLifecycle, ProbeServer], None]:
    async with open_runtime(QUIET) as context:
        service = ServiceLifecycle()
        probe = ProbeServer(service, HttpSettings(read_timeout=read_timeout), admin_token_file=token)
        await service.start(context, probe)
        yield context, service, probe


def tasks_under(context: ServiceContext) -> list[str]:
    return sorted(record.path for group in context.group.walk() for record in group.records())


# -- the probes


@pytest.mark.row("runtime:R127")
async def test_readiness_follows_the_service_and_a_drain_ends_it_with_liveness_kept(token: Path) -> None:
    async with serving(token) as (context, service, probe):
        release = trio.Event()
        context.group.spawn_service(release.wait)
        assert (await ask(probe, "GET", "/readyz")).status == 503
        assert (await ask(probe, "GET", "/readyz")).json == {"status": "not ready", "state": "starting"}
        service.mark_ready()
        assert (await ask(probe, "GET", "/readyz")).status == 200
        assert (await ask(probe, "GET", "/readyz")).json == {"status": "ready", "state": "ready"}
        service.degrade("store")
        assert (await ask(probe, "GET", "/readyz?verbose=1")).status == 503
        service.restore("store")
        drained = await ask(probe, "POST", "/drainz", BEARER)
        assert (drained.status, drained.json) == (200, {"status": "shutdown requested", "state": "draining"})
        assert (await ask(probe, "GET", "/readyz")).status == 503
        assert (await ask(probe, "GET", "/livez")).json == {"status": "live", "state": "draining"}
        release.set()
    assert service.state == "stopped"


@pytest.mark.row("runtime:R127")
async def test_liveness_is_200_until_the_service_has_failed() -> None:
    async with serving() as (_, service, probe):
        live = await ask(probe, "GET", "/livez")
        assert (live.status, live.json) == (200, {"status": "live", "state": "starting"})
        service.mark_failed("planted")
        dead = await ask(probe, "GET", "/livez")
        assert (dead.status, dead.json) == (503, {"status": "not live", "state": "failed"})
        assert b"planted" not in dead.body


@pytest.mark.row("runtime:R127")
async def test_a_post_to_drainz_freezes_one_request_and_is_answered_also_when_nothing_else_runs(token: Path) -> None:
    async with serving(token) as (context, service, probe):
        release = trio.Event()
        context.group.spawn_service(release.wait)
        first = await ask(probe, "POST", "/drainz", BEARER, "Content-Length: 4", body=b"now!")
        assert first.status == 200
        request_ = service.shutdown_request
        assert request_ is not None
        assert request_.reason == "pre_stop"
        assert context.runtime.deadline.reason == "pre_stop"
        assert (await ask(probe, "POST", "/drainz", BEARER)).status == 200
        assert service.shutdown_request is request_
        release.set()
    async with serving(token) as (_, service, probe):
        assert (await ask(probe, "POST", "/drainz", BEARER)).status == 200
        with trio.fail_after(5):
            await trio.sleep_forever()  # left by the end of the tree


@pytest.mark.row("runtime:R127")
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
async def test_only_a_post_drains(method: str, token: Path) -> None:
    async with serving(token) as (_, service, probe):
        reply = await ask(probe, method, "/drainz", BEARER)
        assert reply.status == 405
        assert reply.headers["allow"] == "POST"
        assert service.state == "starting"
        assert service.shutdown_request is None


@pytest.mark.row("runtime:R127")
async def test_a_probe_is_only_read_and_other_paths_are_not_there(token: Path) -> None:
    async with serving(token) as (_, _, probe):
        for path in ("/livez", "/readyz"):
            reply = await ask(probe, "POST", path, BEARER)
            assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
        for path in ("/", "/livez/", "/LIVEZ", "/%6civez", "//livez", "/metrics"):
            assert (await ask(probe, "GET", path)).status == 404


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("Authorization: Bearer",),
        ("Authorization: Bearer wrong-horse-battery",),
        (f"Authorization: Basic {TOKEN}",),
        (f"Authorization: {TOKEN}",),
        (f"Authorization: Bearer {TOKEN}x",),
    ],
)
async def test_a_drain_without_the_token_is_refused(lines: tuple[str, ...], token: Path) -> None:
    async with serving(token) as (_, service, probe):
        reply = await ask(probe, "POST", "/drainz", *lines)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert service.shutdown_request is None
        assert (await ask(probe, "POST", "/drainz", f"Authorization: bearer   {TOKEN}")).status == 200


async def test_without_a_token_file_nothing_can_be_done_by_post() -> None:
    async with serving() as (_, service, probe):
        assert (await ask(probe, "POST", "/drainz", BEARER)).status == 403
        assert service.shutdown_request is None


async def test_pages_stand_beside_the_probes_and_cannot_replace_them() -> None:
    async with open_runtime(QUIET) as context:
        service = ServiceLifecycle()
        metrics = ("text/plain; version=0.0.4", b"tenure_up 1\n")
        probe = ProbeServer(service, pages={"/metrics": lambda: (200, *metrics), "/livez": lambda: (500, *metrics)})
        await service.start(context, probe)
        reply = await ask(probe, "GET", "/metrics")
        assert (reply.status, reply.headers["content-type"], reply.body) == (200, *metrics)
        assert (await ask(probe, "GET", "/livez")).status == 200


# -- the token file


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"", "too short"),
        (b" \n" + b"a" * 15 + b" ", "too short"),
        (b"a" * 4097, "too long"),
        (b"two words are no token", "a character that a header cannot carry"),
        ("a token with umläuts".replace(" ", "").encode(), "a character that a header cannot carry"),
    ],
)
async def test_a_token_file_that_is_no_use_is_refused_before_anything_runs(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    async with open_runtime(QUIET) as context:
        service = ServiceLifecycle()
        probe = ProbeServer(service, admin_token_file=path)
        with pytest.raises(AdminTokenRefused) as refused:
            await service.start(context, probe)
        assert (refused.value.path, refused.value.problem) == (str(path), problem)
        assert isinstance(refused.value, TransportError)
        if content:
            assert content.strip().decode() not in str(refused.value)
        assert tasks_under(context) == []
        assert probe.address is None
        path.write_text(TOKEN)
        path.chmod(0o600)
        await service.start(context, probe)


async def test_what_is_no_file_is_refused_and_blocks_nothing(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path):
        with trio.fail_after(5), pytest.raises(AdminTokenRefused) as refused:
            await ProbeServer(ServiceLifecycle(), admin_token_file=path).bind()
        assert refused.value.problem in ("not a regular file", "Is a directory")


async def test_a_token_that_everybody_can_read_is_said(token: Path, caplog: pytest.LogCaptureFixture) -> None:
    await trio.Path(token).chmod(0o604)
    with caplog.at_level(logging.WARNING, "tenure.transport"):
        async with serving(token):
            pass
    assert "can be read by every user" in caplog.text
    assert TOKEN not in caplog.text


# -- a start that fails


@pytest.mark.row("runtime:R126")
async def test_an_occupied_port_leaves_no_task_and_the_same_start_works_when_it_is_free() -> None:
    async with open_runtime(QUIET) as context:
        service = ServiceLifecycle()
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            probe = ProbeServer(service, HttpSettings(port=port))
            for _ in range(2):
                with pytest.raises(ListenFailed) as refused:
                    await service.start(context, probe)
                assert (refused.value.host, refused.value.port) == ("127.0.0.1", port)
                assert isinstance(refused.value.__cause__, OSError)
                assert tasks_under(context) == []
                assert context.group.component_count == 0
                assert context.group.task_count == 0
                assert service.state == "starting"
                assert probe.address is None
        await service.start(context, probe)
        assert probe.address == ("127.0.0.1", port)
        assert tasks_under(context) == ["/service-lifecycle/heartbeat", "/service-lifecycle/probe-server"]
        assert (await ask(probe, "GET", "/livez")).status == 200
    assert probe.address is None
    socket.create_server(("127.0.0.1", port)).close()  # given back


@pytest.mark.row("runtime:R126")
async def test_a_cancelled_start_leaves_no_task_and_no_port(token: Path) -> None:
    async with open_runtime(QUIET) as context:
        service = ServiceLifecycle()
        probe = ProbeServer(service, admin_token_file=token)
        for turns in range(8):  # wherever the cancellation meets it, until one start is quicker
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(service.start, context, probe)
                    for _ in range(turns):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            if tasks_under(context):
                break
            assert context.group.component_count == 0
            assert service.state == "starting"
            assert probe.address is None
        else:
            await service.start(context, probe)
        assert (await ask(probe, "GET", "/livez")).status == 200


@pytest.mark.row("runtime:R126")
async def test_a_server_that_was_bound_gives_its_port_back_when_the_next_one_fails() -> None:
    async with open_runtime(QUIET) as context:
        service = ServiceLifecycle()
        with socket.create_server(("127.0.0.1", 0)) as holder:
            good = ProbeServer(service)
            bad = ProbeServer(service, HttpSettings(port=holder.getsockname()[1]), name="second")
            with pytest.raises(ListenFailed):
                await service.start(context, good, bad)
            assert (good.address, bad.address) == (None, None)
            assert tasks_under(context) == []


# -- where it listens


async def test_it_listens_on_loopback_unless_it_is_told_otherwise(
    token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as (_, _, probe):
        assert probe.address is not None
        assert probe.address[0] == "127.0.0.1"
    with caplog.at_level(logging.WARNING, "tenure.transport"):
        probe = ProbeServer(ServiceLifecycle(), HttpSettings(host="0.0.0.0"), admin_token_file=token)
        await probe.bind()
        probe.close()
    assert "crosses the network in clear" in caplog.text


async def test_the_environment_says_where_the_probes_are(token: Path) -> None:
    service = ServiceLifecycle()
    assert ProbeServer.from_environment(service, {}) is None
    assert ProbeServer.from_environment(service, {"TENURE_HEALTH_BIND": " "}) is None
    environ = {"TENURE_HEALTH_BIND": "127.0.0.1:0", "TENURE_ADMIN_TOKEN_FILE": str(token)}
    page = {"/hello": lambda: (200, "text/plain", b"hello")}
    probe = ProbeServer.from_environment(service, environ, pages=page)
    assert probe is not None
    async with open_runtime(QUIET) as context:
        await service.start(context, probe)
        assert (await ask(probe, "GET", "/hello")).body == b"hello"
        assert (await ask(probe, "POST", "/drainz")).status == 401
    for address in ("8080", "localhost:8080", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", ":80", "::1"):
        with pytest.raises(HttpSettingsInvalid):
            ProbeServer.from_environment(service, {"TENURE_HEALTH_BIND": address})


# -- the end


async def test_a_client_that_has_not_asked_does_not_hold_up_the_end() -> None:
    async with serving(read_timeout=30) as (context, service, probe):
        idle, half = await connect(probe), await connect(probe)
        await half.send_all(b"GET /livez HTTP/1.1\r\n")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await ask(probe, "GET", "/livez")).status == 200
        context.runtime.request_shutdown("internal")
        for stream in (idle, half):
            async with stream:
                assert await read_all(stream) == b""
    assert service.state == "stopped"  # and not cut short at the deadline


async def test_an_answer_in_hand_is_finished_when_the_server_is_closed() -> None:
    service = ServiceLifecycle()
    big = b"x" * 8_000_000
    probe = ProbeServer(service, pages={"/big": lambda: (200, "application/octet-stream", big)})
    async with open_runtime(QUIET) as context:
        await service.start(context, probe)
        async with await connect(probe) as stream:
            await stream.send_all(request("GET", "/big"))
            first = await stream.receive_some(1)
            context.runtime.request_shutdown("internal")
            await eventually(lambda: probe.address is None)
            reply = Reply.of(bytes(first) + await read_all(stream))
    assert len(reply.body) == len(big)
