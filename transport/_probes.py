"""The probes of a service: whether it is live, whether it is ready, and the request to drain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from ._http import HttpSurface
from ._http_request import json_body
from ._http_settings import HttpSettings

if TYPE_CHECKING:
    from lifecycle import ServiceLifecycle

    from ._http_routes import HttpPage


@final
class ProbeServer(HttpSurface):
    """An HTTP server with the probes of one service, to be given to its `start`.

    `GET /livez` and `GET /readyz` answer 200 or 503; `POST /drainz` needs the admin token and requests the shutdown
    with reason "pre_stop". The body of each is JSON: `{"status": ..., "state": ...}`. `pages` adds others, such as
    metrics. It goes on answering while the service drains.
    """

    def __init__(
        self,
        lifecycle: ServiceLifecycle,
        settings: HttpSettings | None = None,
        *,
        admin_token_file: str | os.PathLike[str] | None = None,
        pages: Mapping[str, HttpPage] | None = None,
        name: str = "probe-server",
    ) -> None:
        self._lifecycle = lifecycle
        super().__init__(
            settings,
            pages={**(pages or {}), "/livez": self._livez, "/readyz": self._readyz},
            actions={"/drainz": self._drainz},
            admin_token_file=admin_token_file,
            name=name,
        )

    @classmethod
    def from_environment(
        cls, lifecycle: ServiceLifecycle, environ: Mapping[str, str], *, pages: Mapping[str, HttpPage] | None = None
    ) -> ProbeServer | None:
        """A server at TENURE_HEALTH_BIND, like `127.0.0.1:8080`, with the token in the file that
        TENURE_ADMIN_TOKEN_FILE names; None if the first is absent or blank. Raises `HttpSettingsInvalid`."""
        address = environ.get("TENURE_HEALTH_BIND", "").strip()
        if not address:
            return None
        token = environ.get("TENURE_ADMIN_TOKEN_FILE", "").strip() or None
        return cls(lifecycle, HttpSettings.at(address), admin_token_file=token, pages=pages)

    def _livez(self) -> tuple[int, str, bytes]:
        return self._say(200, "live") if self._lifecycle.is_live else self._say(503, "not live")

    def _readyz(self) -> tuple[int, str, bytes]:
        return self._say(200, "ready") if self._lifecycle.is_ready else self._say(503, "not ready")

    def _drainz(self) -> tuple[int, str, bytes]:
        self._lifecycle.request_shutdown("pre_stop")
        return self._say(200, "shutdown requested")

    def _say(self, status: int, what: str) -> tuple[int, str, bytes]:
        return status, "application/json", json_body(status=what, state=self._lifecycle.state)
