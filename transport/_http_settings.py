"""What an HTTP server is told."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from math import isfinite

import attrs

from ._errors import HttpSettingsInvalid


@attrs.frozen
class HttpSettings:
    """Address and limits of an HTTP server. Raises `HttpSettingsInvalid` with every mistake at once."""

    host: str = "127.0.0.1"
    """An IP address to listen on. Anything off loopback shows the surface, and the admin token, to the network."""

    port: int = 0
    """0 to 65535; 0 takes a free one, see `HttpSurface.address`."""

    connections: int = 64
    """Connections at a time, 1 to 4096. Further ones wait in the system's backlog."""

    request_bytes: int = 2048
    """Bytes of a request, head and body, 256 to 1048576; a larger one is answered 431 or 413."""

    read_timeout: float = 2.0
    """Seconds from the connection to the end of its request; a slower client is answered 408."""

    write_timeout: float = 2.0
    """Seconds that a client has to take its answer."""

    def __attrs_post_init__(self) -> None:
        mistakes = tuple(_mistakes(self))
        if mistakes:
            raise HttpSettingsInvalid(mistakes)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    @classmethod
    def at(cls, address: str) -> HttpSettings:
        """Settings for an address like `127.0.0.1:8080` or `[::1]:8080`. Raises `HttpSettingsInvalid`."""
        host, colon, port = address.strip().rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5) or not _is_address(host):
            raise HttpSettingsInvalid(("the address must be like 127.0.0.1:8080 or [::1]:8080",))
        return cls(host=host, port=int(port))


def _mistakes(settings: HttpSettings) -> Iterator[str]:
    values: dict[str, object] = {field.name: getattr(settings, field.name) for field in attrs.fields(HttpSettings)}
    host = values["host"]
    if not isinstance(host, str) or not _is_address(host):
        yield "host must be an IP address, such as 127.0.0.1 or ::1"
    for name, least, most in (("port", 0, 65535), ("connections", 1, 4096), ("request_bytes", 256, 1048576)):
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            yield f"{name} must be a whole number from {least} to {most}"
    for name in ("read_timeout", "write_timeout"):
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (isfinite(value) and value > 0):
            yield f"{name} must be a finite number of seconds above 0"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
