"""What can be wrong with what diagnostics are asked for."""

from __future__ import annotations

from ._errors import ContractViolation, OperationalError


class DiagnosticsInvalid(ContractViolation):
    """Options were refused. `mistakes` are sentences that each name a field."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return f"these diagnostics options have {len(self.mistakes)} mistake(s): " + "; ".join(self.mistakes)


class MetricsUnavailable(OperationalError):
    """Metrics were asked for where the package `prometheus-client` is not installed."""

    def __str__(self) -> str:
        return "metrics need the package prometheus-client, which is not installed: pip install 'tenure[metrics]'"
