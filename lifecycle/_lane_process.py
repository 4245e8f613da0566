"""The process lane: for work that has to be killed when its time is up."""

from __future__ import annotations

import pickle
from math import inf
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, cast, final

import attrs
import trio

from ._group import name_of
from ._lane_call import Call, CallPlan, make_call
from ._lane_errors import AnswerTooLarge, LaneClosed, LaneMisused, WorkerDied, WorkFailed
from ._lane_isolated import LaneShutdown
from ._lane_policy import LanePolicy, refuse
from ._lane_pool import LanePool
from ._lane_process_worker import RemoteTraceback, TooLarge, Worker, pack
from ._lane_snapshot import LaneSnapshot, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._group import TaskGroup

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_BYTES = 64 * 1024 * 1024


@final
class ProcessLane:
    """Runs functions in processes of its own, which are killed when a call times out or is cancelled.

    At most `policy.max_concurrency` processes, started when they are needed and kept for the next call. They end with
    the scope that the lane was made for: told to stop, it takes no more calls; cancelled, it kills what runs. Made by
    `LaneSet.processes`.
    """

    __slots__ = ("_board", "_busy", "_idle", "_max_bytes", "_nursery", "_over", "_pool", "_scope")

    def __init__(self, policy: LanePolicy, scope: TaskGroup, name: str, max_bytes: int) -> None:
        refuse(policy.mistakes(name))
        if max_bytes < 1:
            raise LaneMisused(name, "max_bytes must be at least 1")
        own = attrs.evolve(policy, reserved=policy.max_concurrency)
        self._pool = LanePool(name, policy.max_concurrency, [(name, own)])
        self._board = self._pool.boards[0]
        self._pool.attach()
        self._scope = scope
        self._max_bytes = max_bytes
        self._idle: list[Worker] = []
        self._busy: dict[Worker, Call[object]] = {}
        self._nursery: trio.Nursery | None = None
        self._over: bool = False
        scope.spawn(self._keep, name=f"{name}-keeper", kind="blocking")
        scope.at_stop(self._pool.stop)

    def __repr__(self) -> str:
        return f"<ProcessLane {self.name} of {self._scope.path}, {len(self._busy)} busy, {len(self._idle)} idle>"

    @property
    def name(self) -> str:
        """The name of the lane."""
        return self._board.name

    @property
    def pool(self) -> LanePool:
        """The capacity; for the runtime's accounts."""
        return self._pool

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of its processes that have not ended, busy ones first."""
        return tuple(worker.process.pid for worker in (*self._busy, *self._idle))

    def snapshot(self) -> LaneSnapshot:
        """The lane as it stands now. Sync."""
        return snapshot(self._pool, self._board)

    async def run(
        self,
        fn: Callable[[*Ts], T],
        /,
        *args: *Ts,
        queue_timeout: float | None = None,
        task_timeout: float | None = None,
        deadline: float = inf,
        name: str | None = None,
    ) -> T:
        """Run `fn(*args)` in a process and return what it returns or raise what it raises, with a copy of each.

        Times are those of `Lane.run`. A time-out or a cancellation kills the process, whatever it does, and with it
        the processes that it has started in its session; the slot is free when it has ended. What the work has done
        until then is done.

        `fn` is found by its module and name in the process, which imports that module; the arguments, the result and
        exceptions go through pickle, at most `max_bytes` of each. What the function prints goes where the program's
        output goes. Beside what `Lane.run` raises: `WorkNotPortable`, `WorkerDied`, `WorkFailed`, `AnswerTooLarge`.
        """
        plan = CallPlan(self._board, name or name_of(fn), "cpu_bound", queue_timeout, task_timeout, deadline)
        pool = self._pool
        if pool.is_elsewhere():
            raise LaneMisused(self.name, "a process lane is used in the Trio program that it was made in")
        request = pack(self.name, fn, args, self._max_bytes)
        call = make_call(pool, self._board, plan, fn, args)
        del fn, args
        call.drop()
        if pool.enter(call, self._scope, plan):
            call.started_at = call.called_at
        else:
            await pool.wait_for_slot(call, self._scope, plan)
        until = min(call.started_at + plan.task_timeout, plan.deadline)
        try:
            with trio.CancelScope(deadline=until) as timer:
                result = self._unpack(call, await self._exchange(call, request))
                self._board.run_times.add(trio.current_time() - call.started_at)
                return cast("T", result)
        except Exception:
            self._board.failed += 1
            raise
        finally:
            if not call.started:
                pool.let_go(call)
        assert timer.cancelled_caught
        raise pool.ran_out(call, by_deadline=until >= plan.deadline)

    def stop_admission(self) -> None:
        """Take no more calls, and end the waits of those without a slot. Sync; may be called again."""
        self._pool.stop()

    async def shutdown(self, until: float) -> LaneShutdown:
        """`stop_admission`, then wait for the calls in hand, at most until a time on Trio's clock; then kill what is
        left. May be called again. A checkpoint; cancelling ends only the wait."""
        self.stop_admission()
        with trio.CancelScope(deadline=until):
            await self._pool.wait_idle()
        for worker in self._busy:
            worker.kill()
        now = self.snapshot()
        return LaneShutdown(not now.lane_running, now.lane_running, now)

    # -- one call

    async def _exchange(self, call: Call[T], request: bytes) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            worker = await self._take(call)
            reply = await self._ask(worker, call, request)
            if reply is not None:
                return reply

    async def _ask(self, worker: Worker, call: Call[T], request: bytes) -> bytes | None:
        """The answer of a process; None if it had ended while it was idle, and the work has not begun."""
        used = worker.greeted
        call.started = True
        call.state = "running"
        call.detail = (f"in process {worker.process.pid}",)
        self._busy[worker] = cast("Call[object]", call)
        reply: bytes | None = None
        given_up = True
        try:
            reply = await worker.ask(request, self._max_bytes)
            given_up = False
        except TooLarge as exc:
            raise AnswerTooLarge(self.name, call.name, exc.size, self._max_bytes) from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            status = await worker.bury()  # noqa: ASYNC120 (shielded)
            if worker.began or not used:
                raise WorkerDied(self.name, call.name, status) from None
            call.started = given_up = False
        finally:
            if given_up:
                self._give_up(worker, call)
            else:
                self._busy.pop(worker, None)
        if reply is not None:
            self._idle.append(worker)
            self._pool.let_go(call)
        return reply

    async def _take(self, call: Call[T]) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await worker.bury()  # it has ended by itself meanwhile
        worker = await Worker.start()
        if self._over:
            await worker.bury()
            raise LaneClosed(self.name, call.name, self._scope.path)
        return worker

    def _unpack(self, call: Call[T], reply: bytes) -> object:
        kind, packed = reply[:1], reply[1:]
        if kind == b"R":
            return pickle.loads(packed)
        if kind == b"E":
            error, text = pickle.loads(packed)
            raise error from RemoteTraceback(text)
        name, text = pickle.loads(packed)
        raise WorkFailed(self.name, call.name, name, text)

    def _give_up(self, worker: Worker, call: Call[T]) -> None:
        """Nobody waits for the answer any more: the process ends, and its slot is free when it has."""
        call.state = "timed_out_still_running"
        worker.kill()
        if self._nursery is not None:
            self._nursery.start_soon(self._bury, worker)

    # -- the keeper, which owns the processes

    async def _keep(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for worker, call in self._busy.items():
                    if call.state == "timed_out_still_running":
                        nursery.start_soon(self._bury, worker)
                await self._scope.stopping.wait()
                self._pool.stop()
                await self._pool.wait_idle()
        finally:
            self._over = True
            self._nursery = None
            self._pool.stop()
            for worker in (*self._busy, *self._idle):
                worker.kill()
            # Each is shielded, and takes no longer than the system does to end what was killed. Were that long, this
            # task would be in the shutdown report.
            for worker in (*self._busy, *self._idle):
                await self._bury(worker)  # noqa: ASYNC102
            self._idle.clear()

    async def _bury(self, worker: Worker) -> None:
        await worker.bury()
        call = self._busy.pop(worker, None)
        if call is not None:
            self._pool.let_go(call)
