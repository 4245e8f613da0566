"""Which answer a request gets: the table of paths, the methods of each, and the admin token before every POST."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, final

from ._http_request import HttpAnswer, HttpRequest, refusal

if TYPE_CHECKING:
    from ._admin_token import AdminToken

HttpPage = Callable[[], tuple[int, str, bytes]]
"""Makes the answer of one path: status, content type, body. Sync and quick; what it raises is logged and answered
500."""

_log = logging.getLogger("tenure.transport")


@final
class HttpRoutes:
    """Pages are read by GET and HEAD, actions are done by POST."""

    def __init__(self, pages: Mapping[str, HttpPage], actions: Mapping[str, HttpPage]) -> None:
        self._pages = dict(pages)
        self._actions = dict(actions)

    def answer(self, request: HttpRequest, token: AdminToken | None) -> HttpAnswer:
        """The answer. Never raises. Without a token nothing can be done by POST."""
        page, action = self._pages.get(request.path), self._actions.get(request.path)
        if page is None and action is None:
            return refusal(404)
        if page is not None and request.method in ("GET", "HEAD"):
            return self._made_by(page, request.path)
        if action is None or request.method != "POST":
            allowed = [*(("GET", "HEAD") if page is not None else ()), *(("POST",) if action is not None else ())]
            return refusal(405, (("Allow", ", ".join(allowed)),))
        if token is None:
            return refusal(403)
        if not token.admits(request.header(b"authorization")):
            return refusal(401, (("WWW-Authenticate", "Bearer"),))
        return self._made_by(action, request.path)

    @staticmethod
    def _made_by(page: HttpPage, path: str) -> HttpAnswer:
        try:
            status, content_type, body = page()
            return HttpAnswer(status, content_type, body)
        except Exception:
            _log.exception("the page %s failed", path)
            return refusal(500)
