"""The errors of this package. Texts say what happened, to which object, and what to do; never what a secret is."""

from __future__ import annotations


class TransportError(Exception):
    """Root of all errors that this package raises."""


class HttpSettingsInvalid(TransportError):
    """Settings of an HTTP server were refused. `mistakes` holds every one of them, each a sentence naming its field."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return f"the settings of the HTTP server have {len(self.mistakes)} mistake(s): " + "; ".join(self.mistakes)


class ListenFailed(TransportError):
    """An address cannot be listened on; the cause is the system's error. `host` and `port` are what was asked for."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(host, port, problem)
        self.host = host
        self.port = port
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"cannot listen on {self.host} port {self.port} ({self.problem}): "
            "end what holds it, or choose another address, and start again"
        )


class NotBound(TransportError):
    """A server was to serve before it was bound, or after it was closed. `server` is its name."""

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self.server = server

    def __str__(self) -> str:
        return f"the server {self.server!r} has no listener: call bind() first, or run(), which does both"


class AcceptFailed(TransportError):
    """A listener takes no connections any more; the cause is the last error. `failures` is how many came in a row."""

    def __init__(self, server: str, failures: int) -> None:
        super().__init__(server, failures)
        self.server = server
        self.failures = failures

    def __str__(self) -> str:
        return (
            f"the server {self.server!r} could not accept a connection {self.failures} time(s) in a row and gives up: "
            "see the cause, and the limit on open files"
        )


class AdminTokenRefused(TransportError):
    """The file of the admin token holds no usable token. `path` is the file, `problem` what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the admin token in {self.path!r} cannot be used ({self.problem}): "
            "write 16 to 4096 printable ASCII characters without blanks there"
        )
