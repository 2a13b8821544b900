"""Interactive queries over HTTP, at `application.server`. A query for a key that another instance has is forwarded.

    GET  /stores                            names, and which instance has which partitions
    GET  /stores/NAME/get?key=K             also as_of=MS for versioned stores
    GET  /stores/NAME/range?first=K&last=K  also reverse=true; both ends are optional
    GET  /stores/NAME/prefix?prefix=TEXT
    GET  /stores/NAME/fetch?key=K           windows; first=MS, last=MS bound their starts
    GET  /stores/NAME/fetch_all?first=MS&last=MS
    GET  /stores/NAME/sessions?key=K
    POST /query                             queries between instances

Keys are JSON, or plain text if the store's keys are text; `key64` takes their bytes in Base64. Everywhere: stale=true,
partition=N, bound=JSON, forward=false (then 421 names the owner), format=raw (the bytes of the value of `get`). Login
and TLS: `query_access`.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ottla.streams.errors import StoreNotFoundError, StreamsError
from ottla.streams.runtime.queries import GLOBAL, NotUpToBoundError, Queries, StoreUnavailableError
from ottla.streams.runtime.query_access import QueryAccess
from ottla.streams.runtime.query_door import encode_arguments

__all__ = ["QueryServer"]

_BODY_BYTES_MAX = 1 << 20
_IDLE_SECONDS = 60.0
_OF_KEY = ("get", "fetch", "sessions")


class QueryServer:
    def __init__(self, queries: Queries, host: str, port: int, access: QueryAccess | None = None) -> None:
        access = access or QueryAccess()
        handler = type("Handler", (_Handler,), {"queries": queries, "access": access})
        context = access.server_context()
        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), port), handler)
        except OSError as error:
            raise StreamsError(f"application.server={host}:{port} cannot be opened: {error.strerror}.") from error
        if context is not None:
            # Handshakes happen in the thread of their connection, with its first read.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, name="streams-queries", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    queries: Queries
    access: QueryAccess
    protocol_version = "HTTP/1.1"
    # A connection that sends nothing is closed.
    timeout = _IDLE_SECONDS

    def log_message(self, *_: Any) -> None:
        """Queries are not logged."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            # A client that is gone, or does not speak TLS.
            self.close_connection = True

    def do_GET(self) -> None:
        if not self._is_admitted():
            return
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        options = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        if parts == ["stores"]:
            self._send(200, self._overview())
        elif len(parts) == 3 and parts[0] == "stores":
            self._guarded(lambda: self._read(parts[1], parts[2], options))
        else:
            self._send(404, {"error": "unknown", "message": "Use /stores, or /stores/NAME/get?key=..."})

    def _is_admitted(self) -> bool:
        if self.access.admits(self.headers.get("authorization")):
            return True
        # A body is not read: it must not be taken for the next request.
        self.close_connection = True
        message = "This application needs a login: application.server.basic.auth.user.info has it."
        self._send(401, {"error": "refused", "message": message})
        return False

    def do_POST(self) -> None:
        if not self._is_admitted():
            return
        length = self.headers.get("content-length", "")
        if self.path != "/query" or not length.isdecimal() or int(length) > _BODY_BYTES_MAX:
            # The body is not read: it must not be taken for the next request.
            self.close_connection = True
            self._send(404, {"error": "unknown", "message": "Use POST /query, with a content-length of at most 1 MB."})
            return
        body = self.rfile.read(int(length))
        # The asking instance has chosen the owner: forwarding again could go in circles.
        self._guarded(lambda: self._send(200, self.queries.ask(json.loads(body), forwards=False)))

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except StoreNotFoundError as error:
            self._send(404, {"error": "unknown", "message": str(error)})
        except StoreUnavailableError as error:
            self._send(503, {"error": "unavailable", "message": str(error)})
        except NotUpToBoundError as error:
            self._send(409, {"error": "not up to bound", "message": str(error)})
        except (StreamsError, ValueError, KeyError, TypeError) as error:
            self._send(400, {"error": "refused", "message": str(error)})

    def _read(self, store: str, operation: str, options: dict[str, str]) -> None:
        queries = self.queries
        arguments = self._arguments(store, operation, options)
        if operation in _OF_KEY:
            if "key" not in arguments:
                raise StreamsError(f"{operation} needs key=...")
            partitions = [queries.partition_of(store, arguments["key"])]
        else:
            partitions = queries.partitions(store)
        if "partition" in options:
            partitions = [int(options["partition"])]
        stale, forwards = options.get("stale") == "true", options.get("forward") != "false"
        rows: list[dict[str, Any]] = []
        about: dict[str, Any] = {}
        for partition in partitions:
            request = {
                "store": store,
                "partition": partition,
                "operation": operation,
                "arguments": encode_arguments(arguments),
                "stale": stale,
                "bound": json.loads(options.get("bound", "null")),
            }
            try:
                answer = queries.ask(request, forwards=forwards)
            except StoreUnavailableError as error:
                owners = [] if partition == GLOBAL else queries.hosts(store, partition)
                if forwards or not owners or not owners[0]:
                    raise
                self._send(421, {"error": "elsewhere", "message": str(error), "owner": owners[0]})
                return
            rows += [self._row(store, *row) for row in answer["rows"]]
            about[str(partition)] = {name: answer[name] for name in ("active", "lag", "position", "more")}
        if options.get("format") == "raw":
            self._send_raw(rows)
        else:
            self._send(200, {"rows": rows, "partitions": about})

    def _arguments(self, store: str, operation: str, options: dict[str, str]) -> dict[str, Any]:
        serde, _, topic = self.queries.serdes(store)

        def key(text: str) -> bytes:
            return serde.serialize(topic, text if getattr(serde, "name", "") == "string" else json.loads(text))

        arguments: dict[str, Any] = {}
        if "key64" in options:
            arguments["key"] = base64.b64decode(options["key64"], validate=True)
        elif "key" in options:
            arguments["key"] = key(options["key"])
        if "prefix" in options:
            arguments["prefix"] = options["prefix"].encode()
        for name in ("first", "last"):
            if name in options:
                arguments[name] = key(options[name]) if operation == "range" else int(options[name])
        if "as_of" in options:
            arguments["as_of"] = int(options["as_of"])
        if options.get("reverse") == "true":
            arguments["reverse"] = True
        return arguments

    def _row(
        self, store: str, key64: str, value64: str, timestamp: int | None, window: list[int] | None
    ) -> dict[str, Any]:
        key_serde, value_serde, topic = self.queries.serdes(store)
        row: dict[str, Any] = {"key64": key64, "value64": value64}
        for name, serde, text in (("key", key_serde, key64), ("value", value_serde, value64)):
            value = serde.deserialize(topic, base64.b64decode(text))
            if _is_json(value):
                row[name] = value
        if timestamp is not None:
            row["timestamp"] = timestamp
        if window is not None:
            row["window"] = {"start": window[0], "end": window[1]}
        return row

    def _overview(self) -> dict[str, Any]:
        instances = [
            {"host": metadata.host, "active": metadata.active, "standby": metadata.standby}
            for metadata in self.queries.all_metadata()
        ]
        return {"stores": self.queries.stores, "instances": instances}

    def _send_raw(self, rows: list[dict[str, Any]]) -> None:
        content = base64.b64decode(rows[0]["value64"]) if rows else b""
        self._write(200 if rows else 404, "application/octet-stream", content)

    def _send(self, status: int, content: dict[str, Any]) -> None:
        self._write(status, "application/json", json.dumps(content).encode() + b"\n")

    def _write(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("www-authenticate", 'Basic realm="streams"')
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
