"""The REST interface: Kafka Connect's paths, bodies and status codes, on aiohttp.

`_routes` is the whole interface as a table. Handlers translate between HTTP and the herder's resources and decide
nothing; exceptions become `{"error_code": ..., "message": ...}`. A request that another worker has to answer is
forwarded, at most twice, as in Kafka: `forward` counts the hops (absent, then true, then false).

Kafka Connect does not have `GET /connectors/{name}/tasks/{n}/progress` and `GET /metrics` (Prometheus).
"""

from __future__ import annotations

import json
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import ClientError as HttpClientError
from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from yarl import URL

from ottla.connect.api import ConnectError
from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.control.request_errors import Elsewhere, RequestError, bad_request
from ottla.connect.control.rest.metrics import metrics_page
from ottla.connect.control.states import RestartRequest, TargetState, TaskId
from ottla.tls.contexts import client_context, server_context
from ottla.tls.errors import TlsError

if TYPE_CHECKING:
    from ottla.connect.configuration.rest_listeners import RestListener
    from ottla.connect.control.herder import Herder
    from ottla.tls.settings import TlsSettings

__all__ = ["RestServer"]

logger = logging.getLogger(__name__)

_FORWARD_SECONDS = 90
# A change waits this long for the group to have a leader.
_READY_SECONDS = 30
_BODY_BYTES_MAX = 16 * 1024 * 1024
# Browsers ask again whether a page may send a request after this time.
_PREFLIGHT_SECONDS = 60
# The version of Kafka Connect whose interface this server has.
VERSION = "4.3.1"
COMMIT = "ottla"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RestServer:
    """Serves requests before the herder has started, so that `/health` can report it."""

    def __init__(
        self,
        listeners: Sequence[RestListener],
        *,
        tls: TlsSettings | None = None,
        allow_origin: str = "",
        allow_methods: str = "",
        has_admin: bool = True,
    ) -> None:
        """`tls` are the settings of listeners with https; `has_admin` is True if requests below /admin are served."""
        self._listeners = listeners
        self._tls = tls
        self._allow_origins = tuple(origin.strip() for origin in allow_origin.split(",") if origin.strip())
        self._allow_methods = allow_methods
        self._has_admin = has_admin
        self._herder: Herder | None = None
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None
        # In the order of the listeners.
        self.ports: list[int] = []

    async def start(self) -> None:
        app = web.Application(middlewares=[self._around], client_max_size=_BODY_BYTES_MAX)
        for method, path, handler in self._routes():
            app.router.add_route(method, path, handler)
            if method == "GET":
                app.router.add_route("HEAD", path, handler)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        server_tls, client_tls = self._contexts()
        for listener in self._listeners:
            await self._listen(self._runner, listener, server_tls if listener.scheme == "https" else None)
        connector = None if client_tls is None else TCPConnector(ssl=client_tls)
        self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=_FORWARD_SECONDS))

    async def _listen(self, runner: web.AppRunner, listener: RestListener, context: ssl.SSLContext | None) -> None:
        site = web.TCPSite(runner, listener.host or None, listener.port, ssl_context=context)
        known = len(runner.addresses)
        try:
            await site.start()
        except OSError as error:
            address = f"{listener.host or '*'}:{listener.port}"
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigError(f"listeners: cannot listen on {address}: {reason}.", name="listeners") from error
        self.ports.append(runner.addresses[known][1])

    def _contexts(self) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
        """The TLS contexts of the listeners, and of requests to other workers."""
        if self._tls is None:
            return None, None
        try:
            return server_context(self._tls), client_context(self._tls)
        except TlsError as error:
            raise ConfigError(f"listeners: https cannot be used. {error.message}", name="listeners") from None

    def serve(self, herder: Herder) -> None:
        self._herder = herder

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _routes(self) -> list[tuple[str, str, Handler]]:
        admin: list[tuple[str, str, Handler]] = [
            ("GET", "/admin/loggers", self._loggers),
            ("GET", "/admin/loggers/{logger}", self._logger),
            ("PUT", "/admin/loggers/{logger}", self._set_logger),
        ]
        connector, task = "/connectors/{name}", "/connectors/{name}/tasks/{task:[0-9]{1,20}}"
        return [
            ("GET", "/", self._root),
            ("GET", "/health", self._health),
            ("GET", "/metrics", self._metrics),
            ("GET", "/connectors", self._list),
            ("POST", "/connectors", self._create),
            ("GET", connector, self._info),
            ("DELETE", connector, self._delete),
            ("GET", connector + "/config", self._config),
            ("PUT", connector + "/config", self._put_config),
            ("PATCH", connector + "/config", self._patch_config),
            ("GET", connector + "/status", self._status),
            ("GET", connector + "/tasks", self._tasks),
            ("GET", task + "/status", self._task_status),
            ("GET", task + "/progress", self._task_progress),
            ("POST", task + "/restart", self._restart_task),
            ("POST", connector + "/restart", self._restart),
            ("PUT", connector + "/pause", self._pause),
            ("PUT", connector + "/resume", self._resume),
            ("PUT", connector + "/stop", self._stop),
            ("GET", connector + "/offsets", self._offsets),
            ("PATCH", connector + "/offsets", self._alter_offsets),
            ("DELETE", connector + "/offsets", self._reset_offsets),
            ("GET", connector + "/topics", self._topics),
            ("PUT", connector + "/topics/reset", self._reset_topics),
            ("GET", "/connector-plugins", self._plugins),
            ("GET", "/connector-plugins/{plugin}/config", self._plugin_config),
            ("PUT", "/connector-plugins/{plugin}/config/validate", self._validate),
            *(admin if self._has_admin else ()),
        ]

    # Every request.

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = self._allowed_origin(request)
        if origin and request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return self._preflight(origin)
        try:
            if self._herder is not None and request.method not in ("GET", "HEAD") and not self._herder.ready.is_set():
                await self._herder.wait_until_ready(_READY_SECONDS)
            response = await handler(request)
        except Elsewhere as error:
            response = await self._forward(request, error.url)
        except RequestError as error:
            response = _error(error.status, self._hidden(str(error)))
        except web.HTTPException as error:
            response = _error(error.status, f"HTTP {error.status} {error.reason}")
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            response = _error(500, self._hidden(str(error)) or type(error).__name__)
        if origin:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Vary"] = "Origin"
        return response

    def _allowed_origin(self, request: web.Request) -> str:
        """The origin of a web page whose requests are allowed (`access.control.allow.origin`), or nothing."""
        origin = request.headers.get("Origin", "")
        return origin if "*" in self._allow_origins or origin in self._allow_origins else ""

    def _preflight(self, origin: str) -> web.Response:
        """The answer to a browser that asks whether a web page may send a request."""
        return web.Response(
            headers={
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": self._allow_methods or "GET,POST,HEAD",
                "Access-Control-Allow-Headers": "Content-Type",
                "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
                "Vary": "Origin",
            }
        )

    async def _forward(self, request: web.Request, url: str | None) -> web.StreamResponse:
        """Forwards a request to the worker that has to answer it."""
        hop = request.query.get("forward")
        if hop == "false":
            return _error(409, "The worker that has to answer is unknown: a rebalance is in progress. Try again.")
        if url is None:
            return _error(409, "The group of workers has no leader: a rebalance is in progress. Try again.")
        assert self._session is not None
        query = {**request.query, "forward": "true" if hop is None else "false"}
        try:
            async with self._session.request(
                request.method,
                # The raw path, because a name may contain a slash or a question mark.
                URL(url.rstrip("/") + request.rel_url.raw_path, encoded=True),
                params=query,
                data=await request.read(),
                headers={"Content-Type": request.headers.get("Content-Type", "application/json")},
            ) as answer:
                content = await answer.read()
                headers = {name: answer.headers[name] for name in ("Location",) if name in answer.headers}
                return web.Response(
                    status=answer.status,
                    body=content or None,
                    headers=headers,
                    content_type="application/json" if content else None,
                )
        except (HttpClientError, TimeoutError) as error:
            return _error(500, f"Forwarding the request to {url} failed: {error}")

    def _hidden(self, text: str) -> str:
        """Hides secrets: error messages of plug-ins may contain them."""
        return text if self._herder is None else self._herder.hide(text)

    def _require_herder(self) -> Herder:
        if self._herder is None:
            raise RequestError(503, "The worker is starting.")
        return self._herder

    # The worker.

    async def _root(self, request: web.Request) -> web.Response:
        del request
        return _json({"version": VERSION, "commit": COMMIT, "kafka_cluster_id": self._require_herder().cluster_id})

    async def _health(self, request: web.Request) -> web.Response:
        del request
        if self._herder is None or not self._herder.ready.is_set():
            return _json({"status": "starting", "message": "The worker has not joined its group yet."}, 503)
        return _json({"status": "healthy", "message": "The worker answers and works."})

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text=metrics_page(self._require_herder()), content_type="text/plain")

    # Connectors.

    async def _list(self, request: web.Request) -> web.Response:
        herder = self._require_herder()
        if "expand" not in request.query:
            return _json(herder.connectors.names())
        connectors: dict[str, Any] = {}
        for name in herder.connectors.names():
            expanded: dict[str, Any] = {}
            try:
                for expansion in request.query.getall("expand"):
                    if expansion == "status":
                        expanded["status"] = herder.connectors.status(name)
                    elif expansion == "info":
                        expanded["info"] = herder.connectors.info(name)
            except RequestError:
                # The connector was deleted meanwhile, or has no status yet.
                continue
            connectors[name] = expanded
        return _json(connectors)

    async def _create(self, request: web.Request) -> web.Response:
        body = await _object(request)
        unknown = set(body) - {"name", "config", "initial_state"}
        if unknown or not isinstance(body.get("config"), dict):
            raise RequestError(500, "A connector is created from an object with name, config and initial_state.")
        name = (_settings({"name": body.get("name")})["name"] or "").strip()
        config = _named(name, _settings(body["config"]))
        _, info = await self._require_herder().connectors.put(name, config, target=_initial_target(body), replace=False)
        return _json(info, 201, {"Location": _location(request, name)})

    async def _info(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().connectors.info(_name(request)))

    async def _delete(self, request: web.Request) -> web.Response:
        await self._require_herder().connectors.delete(_name(request))
        return web.Response(status=204)

    async def _config(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().connectors.config(_name(request)))

    async def _put_config(self, request: web.Request) -> web.Response:
        name = _name(request)
        config = _named(name, _settings(await _object(request)))
        created, info = await self._require_herder().connectors.put(name, config, target=None, replace=True)
        return _json(info, 201, {"Location": _location(request, name)}) if created else _json(info)

    async def _patch_config(self, request: web.Request) -> web.Response:
        return _json(await self._require_herder().connectors.patch(_name(request), _settings(await _object(request))))

    async def _status(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().connectors.status(_name(request)))

    async def _pause(self, request: web.Request) -> web.Response:
        await self._require_herder().connectors.pause(_name(request))
        return web.Response(status=202)

    async def _resume(self, request: web.Request) -> web.Response:
        await self._require_herder().connectors.resume(_name(request))
        return web.Response(status=202)

    async def _stop(self, request: web.Request) -> web.Response:
        await self._require_herder().connectors.stop(_name(request))
        return web.Response(status=204)

    async def _restart(self, request: web.Request) -> web.Response:
        name = _name(request)
        include_tasks, only_failed = _flag(request, "includeTasks"), _flag(request, "onlyFailed")
        if not include_tasks and not only_failed:
            await self._require_herder().connectors.restart(name)
            return web.Response(status=204)
        return _json(
            await self._require_herder().connectors.restart_parts(RestartRequest(name, include_tasks, only_failed)), 202
        )

    # Tasks.

    async def _tasks(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().tasks.configs(_name(request)))

    async def _task_status(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().tasks.status(_task(request)))

    async def _task_progress(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().tasks.progress(_task(request)))

    async def _restart_task(self, request: web.Request) -> web.Response:
        await self._require_herder().tasks.restart(_task(request))
        return web.Response(status=204)

    # Offsets and topics.

    async def _offsets(self, request: web.Request) -> web.Response:
        return _json(await self._require_herder().offsets.describe(_name(request)))

    async def _alter_offsets(self, request: web.Request) -> web.Response:
        body = await _object(request)
        if set(body) - {"offsets"}:
            raise RequestError(500, "Offsets are altered by an object with the one field offsets.")
        offsets = body.get("offsets")
        if not offsets or not isinstance(offsets, list):
            raise bad_request("There is no partition with an offset in the request.")
        if not all(_is_offset(entry) for entry in offsets):
            raise bad_request("Every entry has a partition and an offset, both objects; the offset may be null.")
        return _json(await self._require_herder().offsets.alter(_name(request), offsets))

    async def _reset_offsets(self, request: web.Request) -> web.Response:
        return _json(await self._require_herder().offsets.reset(_name(request)))

    async def _topics(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().topics.used_by(_name(request)))

    async def _reset_topics(self, request: web.Request) -> web.Response:
        await self._require_herder().topics.reset(_name(request))
        return web.Response(status=202)

    # Plug-ins.

    async def _plugins(self, request: web.Request) -> web.Response:
        connectors_only = request.query.get("connectorsOnly", "true").lower() == "true"
        return _json(self._require_herder().plugins.all(connectors_only=connectors_only))

    async def _plugin_config(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().plugins.settings(request.match_info["plugin"]))

    async def _validate(self, request: web.Request) -> web.Response:
        plugins, named = self._require_herder().plugins, request.match_info["plugin"]
        config = _settings(await _object(request))
        try:
            given = config.get("connector.class")
            if given is not None and not plugins.is_same_connector(given, named):
                raise bad_request(f"The configuration is of {given}, but the request is about {named}.")
            return _json(await plugins.validate(config))
        except ConnectError as error:
            # Kafka answers with 500 here, where creating a connector is answered with 400.
            raise RequestError(500, str(error)) from None

    # Loggers.

    async def _loggers(self, request: web.Request) -> web.Response:
        del request
        return _json(self._require_herder().loggers.all())

    async def _logger(self, request: web.Request) -> web.Response:
        return _json(self._require_herder().loggers.get(request.match_info["logger"]))

    async def _set_logger(self, request: web.Request) -> web.Response:
        name, level = request.match_info["logger"], (await _object(request)).get("level")
        if level is None:
            raise bad_request("The request has no level.")
        if request.query.get("scope", "worker").lower() == "cluster":
            await self._require_herder().loggers.set_in_cluster(name, str(level))
            return web.Response(status=204)
        return _json(self._require_herder().loggers.set(name, str(level)))


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=json.dumps(value, separators=(",", ":")).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
    )


def _error(status: int, message: str) -> web.Response:
    return _json({"error_code": status, "message": message}, status)


def _name(request: web.Request) -> str:
    return request.match_info["name"]


def _task(request: web.Request) -> TaskId:
    return TaskId(_name(request), int(request.match_info["task"]))


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "false").lower() == "true"


def _location(request: web.Request, name: str) -> str:
    # A name may contain a slash.
    return f"{request.url.origin()}/connectors/{quote(name, safe='')}"


async def _object(request: web.Request) -> dict[str, Any]:
    if request.content_type not in ("application/json", "application/octet-stream"):
        raise web.HTTPUnsupportedMediaType
    content = await request.read()
    try:
        # The parser's own decoding lets half of a surrogate pair pass.
        text = content.decode(json.detect_encoding(content))
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(500, f"The body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(500, "The body is not a JSON object.")
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            # The text cannot be encoded, so it can neither be stored nor name anything in the cluster.
            raise bad_request("The body has half of a surrogate pair.") from None
    return value


def _is_offset(entry: Any) -> bool:
    is_known = isinstance(entry, dict) and isinstance(entry.get("partition"), dict)
    return is_known and isinstance(entry.get("offset"), dict | None)


def _settings(value: dict[str, Any]) -> dict[str, str | None]:
    """Settings as text. Numbers and booleans of JSON become their text, as in Kafka."""
    settings: dict[str, str | None] = {}
    for key, setting in value.items():
        if setting is None or isinstance(setting, str):
            settings[key] = setting
        elif isinstance(setting, bool):
            settings[key] = "true" if setting else "false"
        elif isinstance(setting, int | float):
            settings[key] = str(setting)
        else:
            raise RequestError(500, f"{key} is neither text nor a number.")
    return settings


def _named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    included = config.get("name")
    if included is not None and included != name:
        raise bad_request(f"The configuration is of {included}, but the request is about {name}.")
    config["name"] = name
    return config


def _initial_target(body: dict[str, Any]) -> TargetState | None:
    given = body.get("initial_state")
    if given is None:
        return None
    words = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
    if str(given).upper() not in words:
        raise RequestError(500, f"initial_state is {given}, but it must be one of {', '.join(words)}.")
    return words[str(given).upper()]
