"""What a service lifecycle is told, by hand or by the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite

import attrs

from ._errors import ConfigInvalid

MIN_STALE, MAX_STALE = 2.0, 300.0
MIN_SHUTDOWN, MAX_SHUTDOWN = 1.0, 300.0


@attrs.frozen
class ServiceSettings:
    """Limits of a `ServiceLifecycle`. Raises `ConfigInvalid` with every mistake at once."""

    stale_after: float = 30.0
    """Seconds without progress after which the service is not live; 2 to 300. The heartbeat records progress each
    second, so what makes it stale is a loop that does not turn."""

    shutdown_within: float | None = None
    """Seconds that a shutdown requested here gets, 1 to 300; None: the runtime's `shutdown_within`."""

    def __attrs_post_init__(self) -> None:
        mistakes = tuple(_mistakes(self))
        if mistakes:
            raise ConfigInvalid(mistakes)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ServiceSettings:
        """Read TENURE_LIVENESS_STALE_SECONDS and TENURE_SHUTDOWN_TIMEOUT_SECONDS from `environ`, the defaults where
        they are absent or blank. Pure; raises `ConfigInvalid`, whose text names the variables and not their values."""
        mistakes: list[str] = []
        stale = _seconds(environ, "TENURE_LIVENESS_STALE_SECONDS", MIN_STALE, MAX_STALE, mistakes)
        within = _seconds(environ, "TENURE_SHUTDOWN_TIMEOUT_SECONDS", MIN_SHUTDOWN, MAX_SHUTDOWN, mistakes)
        if mistakes:
            raise ConfigInvalid(tuple(mistakes))
        return cls(stale_after=30.0 if stale is None else stale, shutdown_within=within)


def _seconds(environ: Mapping[str, str], name: str, least: float, most: float, mistakes: list[str]) -> float | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if least <= value <= most:
        return value
    mistakes.append(f"{name} must be a number of seconds from {least:g} to {most:g}")
    return None


def _mistakes(settings: ServiceSettings) -> Iterator[str]:
    limits = (("stale_after", MIN_STALE, MAX_STALE), ("shutdown_within", MIN_SHUTDOWN, MAX_SHUTDOWN))
    for name, least, most in limits:
        value: object = getattr(settings, name)
        if value is None and name == "shutdown_within":
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield f"{name} must be a number of seconds, not {type(value).__name__}"
        elif not (isfinite(value) and least <= value <= most):
            yield f"{name} must be from {least:g} to {most:g} seconds, not {value}"
