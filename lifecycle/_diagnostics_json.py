"""A diagnostics snapshot as JSON."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from ._diagnostics import DiagnosticsSnapshot

FORMAT = 1


def snapshot_to_json(snapshot: DiagnosticsSnapshot) -> str:
    """The snapshot as one JSON object: its fields under their names, absent sections as null."""
    names_of_files = not snapshot.redacted
    fields = attrs.asdict(
        snapshot,
        filter=lambda attribute, _: names_of_files or attribute.name != "target",
        value_serializer=_plain,
    )
    return json.dumps({"format": FORMAT, **fields}, allow_nan=False)


def _plain(_owner: object, _attribute: object, value: Any) -> Any:
    return str(value) if isinstance(value, PurePath) else value
