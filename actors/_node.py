"""A node: a place in the tree below which actors are spawned, with the names that are taken there."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from lifecycle import GroupClosed, GroupPoisoned

from ._errors import ActorStopped, NameInvalid, NameTaken, SystemStopped

if TYPE_CHECKING:
    from lifecycle import TaskGroup

    from ._cell import Cell
    from ._system import System

LONGEST_NAME = 200


@final
class Node:
    """The root of a system, or an actor that has children. A transparent one (a supervisor without a name of its own)
    keeps no names: those of its children are taken where the supervisor is."""

    __slots__ = ("_serial", "cell", "names", "system", "transparent")

    def __init__(self, system: System, cell: Cell | None, *, transparent: bool = False) -> None:
        self.system: System = system
        self.cell: Cell | None = cell
        self.transparent: bool = transparent
        self.names: dict[str, Cell] = {}
        self._serial = 0

    @property
    def namespace(self) -> Node:
        """The node in which the names of the children are taken."""
        node = self
        while node.transparent and node.cell is not None:
            node = node.cell.node
        return node

    @property
    def path(self) -> str:
        return "/" if self.cell is None else self.cell.path

    def path_of(self, name: str) -> str:
        """The path of a child."""
        parts = [name]
        node = self.namespace
        while node.cell is not None:
            parts.append(node.cell.name)
            node = node.cell.node.namespace
        parts.append("")
        return "/".join(reversed(parts))

    def free_name(self, wanted: str | None, stem: str) -> str:
        """The name for a new child. `NameTaken` or `NameInvalid` for a wanted one; otherwise the stem with a number."""
        names = self.namespace.names
        if wanted is not None:
            check_name(wanted)
            if wanted in names:
                raise NameTaken(wanted, self.namespace.path)
            return wanted
        space = self.namespace
        while True:
            space._serial += 1
            name = f"{stem}-{space._serial}"
            if name not in names:
                return name

    def take(self, cell: Cell) -> None:
        self.namespace.names[cell.name] = cell

    def forget(self, cell: Cell) -> None:
        """The child has ended; its name is free."""
        names = self.namespace.names
        if names.get(cell.name) is cell:
            del names[cell.name]

    def group(self) -> TaskGroup:
        """The task group of the children, made at the first spawn. `SystemStopped` or `ActorStopped` when it is
        closed."""
        cell = self.cell
        try:
            if cell is None:
                group = self.system.group
                group.check_open()
            else:
                if cell.exit is not None or cell.state in ("restarting", "stopping"):
                    raise ActorStopped(cell.path, cell.exit)
                if cell.own is None:
                    cell.own = cell.group.child(cell.name, owner=cell)
                group = cell.own
                group.check_open()
        except (GroupClosed, GroupPoisoned) as exc:
            if cell is None or self.system.stopping.is_set():
                raise SystemStopped(self.system.name) from exc
            raise ActorStopped(cell.path, cell.exit) from exc
        return group

    def child_failed(self, causes: list[Exception]) -> None:
        """A child without a supervisor has failed."""
        if self.cell is None:
            self.system.child_failed(causes)
        else:
            self.cell.child_failed(causes)

    def find(self, path: str) -> Cell | None:
        """The actor at a path that is relative to this node; None if there is none."""
        node: Node | None = self
        cell: Cell | None = None
        for name in path.strip("/").split("/"):
            if node is None:
                return None
            cell = node.names.get(name)
            if cell is None:
                return None
            links = cell.linked
            node = links.node if links is not None else None
        return cell


def check_name(name: str) -> None:
    """Raise `NameInvalid` unless `name` can be one level of a path."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NameInvalid(repr(name), "it is no text")
    if not name.strip():
        raise NameInvalid(name, "it is blank")
    if "/" in name:
        raise NameInvalid(name, "it contains a slash, which separates the levels of a path")
    if len(name) > LONGEST_NAME:
        raise NameInvalid(name, f"it is longer than {LONGEST_NAME} characters")
    if not name.isprintable():
        raise NameInvalid(name, "it contains characters that cannot be printed")
