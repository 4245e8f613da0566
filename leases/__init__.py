"""What is held for a time: lease handles, the keepalive registry, the coordination and payload stores with their
backends, id allocators, claims with fencing tokens.

Empty in 0.1.0: the package only holds its place.
"""

from __future__ import annotations

__all__: list[str] = []
