"""What the node counts while it works: plain integers, read only when somebody asks.

Hot code adds to these fields directly; a metrics endpoint will read them when it is scraped. Nothing here is locked:
everything that writes runs on the loop's thread.
"""

from __future__ import annotations

__all__ = ["ApiStatistics", "NodeStatistics"]


class ApiStatistics:
    """One API key's requests, all versions together."""

    __slots__ = ("errors", "handled_seconds", "parked", "request_bytes", "requests")

    def __init__(self) -> None:
        self.requests = 0
        # Requests whose handler raised: protocol errors that a handler answers itself are not failures.
        self.errors = 0
        # Requests whose answer was not ready when the handler returned.
        self.parked = 0
        self.request_bytes = 0
        # Time from the frame's arrival in the dispatcher to its answer or its parking.
        self.handled_seconds = 0.0


class NodeStatistics:
    __slots__ = ("apis", "connections_accepted", "connections_refused", "frames_refused")

    def __init__(self) -> None:
        self.apis: dict[int, ApiStatistics] = {}
        self.connections_accepted = 0
        self.connections_refused = 0
        self.frames_refused = 0

    def api(self, api_key: int) -> ApiStatistics:
        statistics = self.apis.get(api_key)
        if statistics is None:
            statistics = self.apis[api_key] = ApiStatistics()
        return statistics
