"""The REST interface: Confluent's paths, bodies and codes, on aiohttp.

Every `*_routes` function returns a table of routes. Handlers translate between HTTP and the core and decide nothing. A
write that another instance has to decide is forwarded once: `X-Forward` marks it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Awaitable, Callable

from aiohttp import ClientError as HttpClientError
from aiohttp import ClientSession, ClientTimeout, web
from yarl import URL

from ottla.registry.core.errors import RegistryError
from ottla.registry.node.answers import CONTENT_TYPE, error_answer
from ottla.registry.node.association_routes import association_routes
from ottla.registry.node.compatibility_routes import compatibility_routes
from ottla.registry.node.context_paths import in_context
from ottla.registry.node.cross_origin import CrossOrigin
from ottla.registry.node.guard import FORWARDED, FORWARDED_PRINCIPAL, Guard, principal_of
from ottla.registry.node.key_routes import key_routes
from ottla.registry.node.metrics import PATH as METRICS_PATH
from ottla.registry.node.metrics import RequestFigures, metrics_page
from ottla.registry.node.permissions import permitted
from ottla.registry.node.schema_routes import schema_routes
from ottla.registry.node.security import TlsFiles
from ottla.registry.node.service import Elsewhere, RegistryService
from ottla.registry.node.settings_routes import settings_routes
from ottla.registry.node.subject_routes import subject_routes

__all__ = ["RegistryServer"]

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_BODY_BYTES_MAX = 16 * 1024 * 1024
_FORWARD_SECONDS = 60
_PARAMETER = re.compile(r"\{(\w+)\}")
_TOO_MANY = 429
_RETRY_SECONDS = 1
_FORWARDED_HEADERS = ("Content-Type", "Accept", "Authorization")


class RegistryServer:
    def __init__(
        self,
        host: str,
        port: int,
        service: RegistryService,
        *,
        guard: Guard | None = None,
        tls: TlsFiles | None = None,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self._cross_origin = cross_origin or CrossOrigin()
        self._host = host
        self._port = port
        self._service = service
        self._guard = guard or Guard()
        self._tls = tls
        self._figures = RequestFigures()
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None
        self._outgoing: ssl.SSLContext | bool = True
        self.port = 0

    async def start(self) -> None:
        """Takes the port. Requests are answered with 503 until the service has started. Raises OSError."""
        app = web.Application(middlewares=[self._around], client_max_size=_BODY_BYTES_MAX)
        for make in (
            schema_routes,
            subject_routes,
            settings_routes,
            compatibility_routes,
            association_routes,
            key_routes,
        ):
            for method, path, handler in make(self._service):
                guarded = permitted(self._service, path, handler)
                # A parameter as aiohttp writes it has no braces, but the name of a subject may have them.
                pattern = _PARAMETER.sub(r"{\1:[^/]+}", path)
                for variant in {pattern, pattern.rstrip("/") + "/"}:
                    app.router.add_route(method, variant, guarded)
                    if method == "GET":
                        app.router.add_route("HEAD", variant, guarded)
        app.router.add_get(METRICS_PATH, self._metrics)
        await self._guard.start()
        app.router.add_route("*", "/contexts/{context}/{rest:.+}", in_context)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        context = None if self._tls is None else await asyncio.to_thread(self._tls.server_context)
        if self._tls is not None:
            # Loaded once: reading files for every forwarded request would block the loop.
            self._outgoing = await asyncio.to_thread(self._tls.client_context)
        await web.TCPSite(self._runner, self._host or None, self._port, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]
        self._session = ClientSession(timeout=ClientTimeout(total=_FORWARD_SECONDS))

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._guard.stop()

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.perf_counter()
        if request.method == "OPTIONS":
            response = self._cross_origin.options(request)
        else:
            response = await self._admitted(request, handler)
            self._guard.audit(request, response.status)
        self._cross_origin.mark(request, response)
        self._figures.add(request, response, time.perf_counter() - began)
        return response

    async def _admitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            await self._guard.admit(request)
        except RegistryError as error:
            refused = error_answer(error)
            if error.status == _TOO_MANY:
                refused.headers["Retry-After"] = str(_RETRY_SECONDS)
            else:
                refused.headers["WWW-Authenticate"] = 'Basic realm="schema registry"'
            return refused
        return await self._handled(request, handler)

    async def _handled(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._service.is_ready and request.path != METRICS_PATH:
            return error_answer(RegistryError(50302, "The registry is reading its schemas. Try again."))
        try:
            return await handler(request)
        except Elsewhere as error:
            return await self._forward(request, error.url)
        except RegistryError as error:
            return error_answer(error)
        except web.HTTPException as error:
            return error_answer(RegistryError(error.status, f"HTTP {error.status} {error.reason}"))
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return error_answer(RegistryError(50001, "Error in the backend data store or an internal error"))

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        """Every authenticated client may read the metrics: they name no subject."""
        return web.Response(text=metrics_page(self._service, self._figures), content_type="text/plain")

    async def _forward(self, request: web.Request, url: str) -> web.StreamResponse:
        if FORWARDED in request.headers:
            return error_answer(RegistryError(50003, f"Error while forwarding the request: the writer is {url} now."))
        self._figures.forwarded += 1
        asking = asyncio.ensure_future(self._ask_writer(request, url))
        replaced = asyncio.ensure_future(self._service.wait_for_another_writer(url))
        try:
            # A frozen writer would keep the client waiting long after another instance has taken over.
            await asyncio.wait((asking, replaced), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return error_answer(RegistryError(50003, f"The writer at {url} was replaced. Try again."))
            answer = asking.result()
        except (HttpClientError, TimeoutError, OSError) as error:
            return error_answer(RegistryError(50003, f"Error while forwarding the request to {url}: {error}"))
        finally:
            for task in (asking, replaced):
                task.cancel()
            await asyncio.gather(asking, replaced, return_exceptions=True)
        # The client may read from this instance next.
        await self._service.catch_up()
        return answer

    async def _ask_writer(self, request: web.Request, url: str) -> web.Response:
        assert self._session is not None
        headers = {name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers}
        async with self._session.request(
            request.method,
            # The raw path, because a subject may contain a slash.
            URL(url + request.rel_url.raw_path_qs, encoded=True),
            data=await request.read(),
            headers={**headers, FORWARDED: "true", FORWARDED_PRINCIPAL: principal_of(request)},
            ssl=self._outgoing,
        ) as answer:
            body = await answer.read()
            return web.Response(status=answer.status, body=body, headers={"Content-Type": CONTENT_TYPE})
