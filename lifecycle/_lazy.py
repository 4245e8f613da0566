"""Packages whose names are loaded with their module when they are first used, so that importing one costs little."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazily(package: dict[str, Any], places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of the package with these globals; `places` has the names of each module, with
    spaces between them."""
    owner: str = package["__name__"]
    modules = {name: module for module, names in places.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {owner!r} has no attribute {name!r}")
        value = package[name] = getattr(import_module(f"{owner}.{modules[name]}"), name)
        return value

    def known() -> list[str]:
        return sorted(package["__all__"])

    return load, known
