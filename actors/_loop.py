"""The message loop of class actors: the hot path.

Its only cancel point is before it takes a message, so a cancellation loses none; from taking a message to the end of
a plain handler nothing else runs. Messages are taken in slices. Stopping is not looked for between messages: a stop
empties the lanes, so that the loop finds nothing more to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.lowlevel import checkpoint, current_task, wait_task_rescheduled

if TYPE_CHECKING:
    from ._box import Item
    from ._cell import Cell


@trio.lowlevel.enable_ki_protection
async def serve(cell: Cell) -> None:
    """Handle messages until the actor has been told to end and the mailbox has nothing more for it.

    Returns early where the life is to end (`leave`), and before the first message that may await (`wants_scope`).
    """
    box = cell.box
    slice_ = box.slice
    clock = slice_.clock
    task = current_task()
    item: Item | None
    cell.started_loop()
    while not cell.leave:
        if box.data or box.control:
            await checkpoint()
        elif cell.ending is not None:
            return
        else:
            box.waiter = task
            await wait_task_rescheduled(box.abort_park)
            if cell.fault is not None:
                cell.raise_fault()
        if cell.leave:
            return
        slice_.left = left = slice_.messages
        slice_.end = end = clock() + slice_.seconds
        data = box.data
        take = box.taker()
        while left:
            if box.control:  # looked up each time: a handler may have made the lane just now
                item = box.control.popleft()
            elif data:
                item = take()
                if item is None:
                    break
                if box.waiting:
                    box.admit()
            else:
                break
            left -= 1
            cell.in_hand = item
            message, _, ask = item
            handler = cell.plain.get(type(message))
            if handler is not None:  # plain: nothing else runs until it has returned
                if ask is None:
                    handler(cell.target, message)
                elif not ask.abandoned:
                    value = handler(cell.target, message)
                    if cell.in_hand is item:
                        ask.settle(value)
                else:
                    cell.skip(item)
                    continue
            else:
                if ask is not None and ask.abandoned:
                    cell.skip(item)
                    continue
                handler = cell.awaiting.get(type(message))
                if handler is None:
                    if not cell.adopt_subclass(item):
                        cell.refuse(item)
                    break
                if cell.scope is None:
                    cell.wants_scope = True
                    cell.in_hand = None
                    box.put_first(item)
                    return
                cell.hand_out()
                value = await handler(cell.target, message)
                if ask is not None and cell.in_hand is item:
                    ask.settle(value)
                if cell.attention:  # halted, interrupted or told to stop meanwhile
                    cell.handled += 1
                    break
            cell.handled += 1
            if clock() >= end:
                break
        # While it is parked it keeps nothing alive: neither the last message nor a promise that is to be let go.
        cell.in_hand = item = message = ask = value = None
