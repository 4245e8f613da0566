"""Probes."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors import (
    Actor,
    ActorCrashed,
    Child,
    Mailbox,
    MessageRefused,
    NoReply,
    Ref,
    Request,
    System,
    Terminated,
    handles,
    one_for_one,
)
from actors.testing import Probe, Unexpected, open_probe


@attrs.frozen
class Price:
    amount: int


@attrs.frozen
class Quote(Request[int]):
    item: str


@attrs.frozen
class Other:
    pass


class Shop(Actor[Quote]):
    """Passes quotes on to somebody who knows."""

    def __init__(self, wholesale: Ref[Quote]) -> None:
        self.wholesale = wholesale

    @handles(Quote)
    async def quote(self, msg: Quote) -> int:
        return 2 * await self.wholesale.ask(msg)


async def test_expect_takes_the_next_message_by_class_or_by_value(actor_system_both: System) -> None:
    probe: Probe[Price] = await open_probe(actor_system_both, Price)
    ref: Ref[Price] = probe.ref
    for amount in (1, 2, 3):
        ref.tell(Price(amount))
    first: Price = await probe.expect(Price)
    assert first.amount == 1
    assert await probe.expect(Price(2)) == Price(2)
    assert probe.unread == (Price(3),)
    await probe.expect(object)
    await probe.expect_none()


async def test_expect_fails_with_what_came_instead(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price, Quote, name="ear")
    probe.ref.tell(Price(1))
    probe.ref.tell(Price(2))
    await trio.sleep(1)
    with pytest.raises(Unexpected, match=r"probe /ear expected a Quote and got Price\(amount=1\)") as caught:
        await probe.expect(Quote)
    assert caught.value.seen == (Price(2),)
    with pytest.raises(Unexpected, match=r"expected Price\(amount=9\) and got Price\(amount=2\)"):
        await probe.expect(Price(9))


async def test_expect_waits_on_the_clock_of_trio(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    probe.context.send_after(50, Price(1), to=probe.ref)
    with pytest.raises(Unexpected, match="expected a Price and got nothing within 20 s"):
        await probe.expect(Price, within=20)
    assert trio.current_time() == 20
    await probe.expect(Price, within=40)
    assert trio.current_time() == 50


async def test_expect_none_shows_what_came(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    await probe.expect_none(within=5)
    assert trio.current_time() == 5
    probe.ref.tell(Price(4))
    with pytest.raises(Unexpected, match=r"expected no message and got Price\(amount=4\)"):
        await probe.expect_none()


async def test_fish_for_passes_others_over(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price, Other)
    for message in (Price(1), Other(), Price(2), Other(), Price(30)):
        probe.ref.tell(message)
    assert await probe.fish_for(Other) == Other()
    assert await probe.fish_for(lambda msg: isinstance(msg, Price) and msg.amount > 9) == Price(30)
    assert probe.unread == ()
    probe.ref.tell(Price(5))
    with pytest.raises(Unexpected, match="expected a Other and got nothing within 1 s; it also has") as caught:
        await probe.fish_for(Other)
    assert caught.value.seen == (Price(5),)


async def test_fish_for_has_one_time_limit_for_all(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    timer = probe.context.send_every(0.4, Price(1))
    with pytest.raises(Unexpected, match=r"for which .* is true and got nothing within 2 s"):
        await probe.fish_for(lambda msg: msg.amount > 1, within=2)
    assert trio.current_time() == 2
    timer.cancel()


async def test_a_probe_answers_requests(actor_system_both: System) -> None:
    probe = await open_probe(actor_system_both, Quote, name="wholesale")
    shop = await actor_system_both.spawn(Shop, probe.ref, name="shop")
    answers: list[int] = []

    async def customer() -> None:
        answers.append(await shop.ask(Quote("tea")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(customer)
        asked = await probe.expect(Quote)
        assert probe.sender is shop
        probe.reply(asked, 21)
    assert answers == [42]
    with pytest.raises(Unexpected, match="an open request"):
        probe.reply(asked, 21)


async def test_a_probe_fails_requests(actor_system: System) -> None:
    probe = await open_probe(actor_system, Quote)

    async def answer() -> None:
        probe.fail(await probe.expect(Quote), KeyError("no tea"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        with pytest.raises(KeyError, match="no tea"):
            await probe.ref.ask(Quote("tea"))


async def test_a_request_that_was_told_has_no_answer(actor_system: System) -> None:
    probe = await open_probe(actor_system, Quote)
    probe.ref.tell(Quote("tea"))
    told = await probe.expect(Quote)
    with pytest.raises(Unexpected, match="it was told, has an answer, or was not taken"):
        probe.reply(told, 1)


async def test_an_asker_that_has_gone_is_no_failure(actor_system: System) -> None:
    probe = await open_probe(actor_system, Quote)
    with trio.move_on_after(1):
        await probe.ref.ask(Quote("tea"))
    probe.reply(await probe.expect(Quote), 3)


async def test_what_a_probe_leaves_open_is_answered_at_its_end(actor_system: System) -> None:
    probe = await open_probe(actor_system, Quote)

    async def end() -> None:
        await probe.expect(Quote)
        await probe.ref.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        with pytest.raises(NoReply):
            await probe.ref.ask(Quote("tea"))


async def test_other_classes_are_refused_as_by_any_actor(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    stranger: Ref[object] = probe.ref  # type: ignore[assignment]
    stranger.tell(Other())
    with pytest.raises(MessageRefused):
        await stranger.ask(Quote("tea"))
    assert actor_system.dead_letters.by_reason == {"refused": 2}
    await probe.expect_none()


async def test_a_probe_is_told_of_ends(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    other = await open_probe(actor_system, Price)
    with pytest.raises(Unexpected, match="expected the end of /probe-2 and got nothing within 3 s"):
        await probe.expect_terminated(other.ref, within=3)
    await other.ref.stop()
    assert (await probe.expect_terminated(other.ref)).kind == "stopped"
    assert (await probe.expect_terminated(other.ref)).kind == "stopped"
    late = await open_probe(actor_system, Terminated)
    assert (await late.expect_terminated(other.ref)).kind == "stopped"
    assert (await late.expect(Terminated)).ref is other.ref


async def test_a_stopped_probe_says_so_at_once(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    await probe.ref.stop()
    start = trio.current_time()
    with pytest.raises(Unexpected, match="the probe has been stopped"):
        await probe.expect(Price, within=100)
    assert trio.current_time() == start


async def test_cancelling_a_wait_takes_no_message(actor_system: System) -> None:
    probe = await open_probe(actor_system, Price)
    with trio.move_on_after(1) as scope:
        await probe.expect(Price, within=10)
    assert scope.cancelled_caught
    probe.ref.tell(Price(1))
    await trio.sleep(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await probe.expect(Price)
    assert scope.cancelled_caught
    assert await probe.expect(Price) == Price(1)


async def test_a_probe_can_live_below_an_actor_and_have_a_mailbox(actor_system: System) -> None:
    above = await open_probe(actor_system, Price, name="above")
    below = await open_probe(above.context, Price, name="below", mailbox=Mailbox(limit=1, policy="drop_newest"))
    assert below.ref.path == "/above/below"
    below.ref.tell(Price(1))
    below.ref.tell(Price(2))
    assert await below.expect(Price) == Price(1)
    await below.expect_none()
    assert repr(below) == "<Probe /above/below, 0 unread>"


async def test_an_error_of_a_probe_is_an_error_in_the_actor_that_asks(actor_system: System) -> None:
    probe = await open_probe(actor_system, Quote)
    supervision = await actor_system.supervise(one_for_one(), Child(Shop, probe.ref, name="shop"))
    shop = supervision.child("shop", Shop)

    async def answer() -> None:
        probe.fail(await probe.expect(Quote), KeyError("no tea"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        with pytest.raises(ActorCrashed) as caught:
            await shop.ask(Quote("tea"))
    assert isinstance(caught.value.__cause__, KeyError)
