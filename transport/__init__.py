"""Bytes on wires: the envelope codec, websocket links, the beanstalk protocol, the HTTP surface (probes, metrics, the
live page).

Empty in 0.1.0: the package only holds its place.
"""

from __future__ import annotations

__all__: list[str] = []
