"""Groups and routers: several actors of one kind, addressed together or one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from ._errors import NoMembers
from ._routes import HashBy, LeastLoaded, RandomChoice, RoundRobin

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from ._message import Asked
    from ._ref import Ref
    from ._routes import Key, Route

M = TypeVar("M")
R = TypeVar("R")


@final
class Group(Generic[M]):
    """Actors that take messages of type `M`, in the order in which they joined: `workers = Group[Job]("workers")`.

    An object like any other; an actor may be in several. A member leaves by itself as soon as it has been told to end,
    or has ended. A restart changes nothing.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._joined: dict[Ref[M], None] = {}
        self._members: tuple[Ref[M], ...] | None = None

    def __repr__(self) -> str:
        return f"<Group {self.name}, {len(self.members)} members>"

    def join(self, ref: Ref[M], /) -> None:
        """Take `ref` in. Sync; twice is once, and an actor that has been told to end has left again at once."""
        if ref not in self._joined and not ref.box_.cell.is_leaving:
            self._joined[ref] = None
            self._members = None
            ref.box_.cell.links.groups.append(self._leave_ended)

    def leave(self, ref: Ref[M], /) -> bool:
        """Let `ref` go. Sync; False if it was no member."""
        if ref not in self._joined:
            return False
        ref.box_.cell.links.groups.remove(self._leave_ended)
        self._leave_ended(ref)
        return True

    def _leave_ended(self, ref: Ref[Any]) -> None:
        self._joined.pop(ref, None)
        self._members = None

    @property
    def members(self) -> tuple[Ref[M], ...]:
        """The members; the same tuple until one joins or leaves."""
        if self._members is None:
            self._members = tuple(self._joined)
        return self._members

    def broadcast(self, msg: M, /) -> int:
        """Tell every member; returns how many accepted. Sync. A full mailbox does not raise: its member is left out."""
        return sum([ref.tell_quietly_(msg) for ref in self.members])

    def round_robin(self) -> Router[M]:
        """A router that takes each member in turn."""
        return Router(self, RoundRobin())

    def least_loaded(self) -> Router[M]:
        """A router that takes the member with the fewest messages, queued or in hand; those with equally many take
        turns. One that is being restarted counts as if it had one more."""
        return Router(self, LeastLoaded(_load))

    def hash_by(self, key: Callable[[M], Key]) -> Router[M]:
        """A router that sends messages with the same key to the same member, as long as it is one: rendezvous hashing,
        so a member that leaves moves its own keys only. The key is text, bytes or a whole number."""
        return Router(self, HashBy(key, _path))

    def at_random(self, rng: random.Random) -> Router[M]:
        """A router that takes any member, each with the same chance."""
        return Router(self, RandomChoice(rng))


@final
class Router(Generic[M]):
    """Sends each message to one member of a group. Used like a ref. Raises `NoMembers` when the group is empty."""

    def __init__(self, group: Group[M], route: Route[Any, Ref[M]]) -> None:
        self.group = group
        self._route = route

    def __repr__(self) -> str:
        return f"<Router {type(self._route).__name__} over {self.group!r}>"

    def pick(self, msg: object, /) -> Ref[M]:
        """The member that would take `msg`. Sync; counts as a turn."""
        members = self.group.members
        if not members:
            raise NoMembers(self.group.name)
        ref = self._route.pick(msg, members)
        if ref.box_.closed:  # it has stopped itself, and is about to be started again
            others = tuple(member for member in members if not member.box_.closed)
            if others:
                ref = self._route.pick(msg, others)
        return ref

    def tell(self, msg: M, /) -> None:
        """See `Ref.tell`."""
        self.pick(msg).tell(msg)

    async def send(self, msg: M, /) -> None:
        """See `Ref.send`."""
        await self.pick(msg).send(msg)

    async def ask(self, msg: Asked[M, R], /) -> R:
        """See `Ref.ask`."""
        return await self.pick(msg).ask(msg)


BETWEEN_LIVES = 1_000_000
"""What a member that waits for its restart counts as: one that runs is taken before it, however much it has queued."""


def _load(ref: Ref[Any]) -> int:
    cell = ref.box_.cell
    return cell.box.depth + (cell.in_hand is not None) + (0 if cell.state == "running" else BETWEEN_LIVES)


def _path(ref: Ref[Any]) -> str:
    return ref.path
