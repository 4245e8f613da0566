"""Bytes on wires: the envelope codec, websocket links, the beanstalk protocol, the HTTP surface (probes, metrics, the
live page). This version holds the HTTP surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "AcceptFailed",
    "AdminTokenRefused",
    "HttpPage",
    "HttpSettings",
    "HttpSettingsInvalid",
    "HttpSurface",
    "ListenFailed",
    "NotBound",
    "ProbeServer",
    "TransportError",
]

if TYPE_CHECKING:
    from ._errors import (
        AcceptFailed,
        AdminTokenRefused,
        HttpSettingsInvalid,
        ListenFailed,
        NotBound,
        TransportError,
    )
    from ._http import HttpSurface
    from ._http_routes import HttpPage
    from ._http_settings import HttpSettings
    from ._probes import ProbeServer
else:
    from lifecycle._lazy import lazily

    # A name is loaded with its module when it is first used: an import of the package alone loads no library.
    _PLACES = {
        "_errors": "AcceptFailed AdminTokenRefused HttpSettingsInvalid ListenFailed NotBound TransportError",
        "_http": "HttpSurface",
        "_http_routes": "HttpPage",
        "_http_settings": "HttpSettings",
        "_probes": "ProbeServer",
    }

    __getattr__, __dir__ = lazily(globals(), _PLACES)
