"""File layers that leave something out: the mistakes that the tests of durable files must find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from lifecycle import FileLayer


class _Without:
    """Passes everything on but the operations that it is to forget, of the layer and of the files opened through it."""

    def __init__(self, inner: Any, *forgotten: str) -> None:
        self._inner = inner
        self._forgotten = forgotten

    def __getattr__(self, name: str) -> Any:
        if name in self._forgotten:
            return lambda *args, **options: None
        found = getattr(self._inner, name)
        if name in ("create", "open"):
            return lambda *args, **options: _Without(found(*args, **options), *self._forgotten)
        return found

    def __enter__(self) -> _Without:
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.close()


def without(layer: FileLayer, *forgotten: str) -> FileLayer:
    """The layer with operations that do nothing."""
    return cast("FileLayer", _Without(layer, *forgotten))
