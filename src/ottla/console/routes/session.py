"""The user of the session, the features of the cluster, login and logout."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

from aiohttp import web

from ottla import __version__
from ottla.client.errors import ClientError
from ottla.console.accounts import Account
from ottla.console.answers import ApiError, json_answer
from ottla.console.call import Call, Need, Route
from ottla.console.certificates import certified_user
from ottla.console.login_tickets import TICKET_SECONDS
from ottla.console.logins import MECHANISMS
from ottla.console.sessions import SECONDS_MAX
from ottla.console.view import or_none
from ottla.model.errors import KafkaError

__all__ = ["SESSION_ROUTES"]

logger = logging.getLogger(__name__)

_OIDC_PATH = "/api/login/oidc"


async def _session(call: Call) -> web.Response:
    services = call.services
    session_id = services.sessions.id_of(call.request)
    account = services.account_of(call.request)
    if account is None and (user := certified_user(call.request, services.settings.tls)) is not None:
        # The certificate is the login: a new session, as after a password.
        account = await services.logins.by_identity(user)
        session_id = services.sessions.begin(account)
    session_id = session_id or services.sessions.new_id()
    answer = json_answer(await _session_json(call, session_id, account))
    services.sessions.put(answer, call.request, session_id)
    return answer


async def _session_json(call: Call, session_id: str, account: Account | None) -> dict[str, Any]:
    services = call.services
    session: dict[str, Any] = {
        "user": None,
        "is_logged_in": False,
        "login": {
            "required": services.needs_login,
            "methods": _methods(call),
            "oidc_url": None if services.oidc is None else _OIDC_PATH,
        },
        "role": None,
        "rights": {"read": False, "messages": False, "write": False},
        "masked": False,
        "acts_as_user": False,
        "csrf_token": services.sessions.token_of(session_id),
        "cluster_id": None,
        "version": __version__,
        "features": {
            "metrics": services.metrics.is_known,
            "registry": services.registry is not None,
            "connect": services.connect is not None,
            "expressions": find_spec("celpy") is not None,
        },
    }
    if account is None:
        return session
    # The id, and not the whole state, which takes long to read in a large cluster.
    role, metadata = account.role, await or_none(account.admin.connections.refresh([]))
    features = await or_none(account.view.features.get())
    return {
        **session,
        "user": account.user,
        "is_logged_in": True,
        "role": role.name,
        "rights": {"read": role.can_read, "messages": role.can_read_messages, "write": role.can_write},
        "masked": bool(role.masks),
        "acts_as_user": account.acts_as_user,
        "cluster_id": None if metadata is None else metadata.cluster_id,
        "features": {**session["features"], **(features or {})},
    }


def _methods(call: Call) -> list[str]:
    services = call.services
    methods = list(MECHANISMS) if services.settings.has_password_login else []
    if services.settings.tls is not None and services.settings.tls.authorities is not None:
        methods.append("certificate")
    if services.oidc is not None:
        methods.append("oidc")
    return methods


async def _login(call: Call) -> web.Response:
    services = call.services
    if not services.settings.has_password_login:
        raise ApiError(404, "NOT_AVAILABLE", "This console has no login by password.")
    mechanism = call.text("mechanism", "") or None
    user, password = call.text("user"), call.text("password")
    account = await services.logins.by_password(user, password, mechanism, address=call.client)
    return await _begun(call, account)


async def _begun(call: Call, account: Account) -> web.Response:
    """Ends the old session, and gives the browser a new id, so that an id that was planted in it is worthless."""
    sessions = call.services.sessions
    sessions.end(sessions.id_of(call.request))
    session_id = sessions.begin(account)
    answer = json_answer(await _session_json(call, session_id, account))
    sessions.put(answer, call.request, session_id)
    return answer


async def _logout(call: Call) -> web.Response:
    sessions = call.services.sessions
    sessions.end(sessions.id_of(call.request))
    answer = json_answer({"is_logged_in": False})
    sessions.put(answer, call.request, sessions.new_id())
    return answer


async def _begin_oidc(call: Call) -> web.Response:
    services = call.services
    if services.oidc is None:
        raise ApiError(404, "NOT_AVAILABLE", "This console has no identity provider.", "Start it with --oidc-issuer.")
    redirect = f"{services.forwarding.base_of(call.request)}{_OIDC_PATH}/done"
    address, ticket = await services.oidc.begin(redirect=redirect, to=call.query.get("to", "/"))
    answer = web.Response(status=302, headers={"Location": address, "Cache-Control": "no-store"})
    services.sessions.put_ticket(answer, call.request, ticket, path=_OIDC_PATH, seconds=TICKET_SECONDS)
    return answer


async def _finish_oidc(call: Call) -> web.Response:
    services, query = call.services, call.query
    if services.oidc is None:
        raise ApiError(404, "NOT_AVAILABLE", "This console has no identity provider.")
    if "error" in query:
        raise ApiError(401, "LOGIN_FAILED", f"The identity provider refused the login: {query['error'][:200]}.")
    sessions = services.sessions
    ticket = sessions.ticket_of(call.request)
    state, code = query.get("state", ""), query.get("code", "")
    identity, to = await services.oidc.finish(ticket, state=state, code=code, address=call.client)
    if services.oidc.settings.reaches_cluster:
        account = await services.logins.by_token(identity.user, identity.access_token, identity.groups)
        # The session ends with the access token, because the console has no other credentials of the user.
        session_id = sessions.begin(account, seconds_max=identity.lifetime_seconds or SECONDS_MAX)
    else:
        account = await services.logins.by_identity(identity.user, identity.groups)
        session_id = sessions.begin(account)
    sessions.end(call.session_id)
    answer = web.Response(status=302, headers={"Location": to, "Cache-Control": "no-store"})
    sessions.put(answer, call.request, session_id)
    sessions.put_ticket(answer, call.request, "", path=_OIDC_PATH, seconds=0.0)
    return answer


def _shown(handler: Callable[[Call], Awaitable[web.Response]]) -> Callable[[Call], Awaitable[web.Response]]:
    """Sends a browser to the login page after an error, because a person cannot use JSON. Scripts get the error."""

    async def handle(call: Call) -> web.Response:
        try:
            return await handler(call)
        except (ApiError, KafkaError, ClientError) as error:
            if "text/html" not in call.request.headers.get("Accept", ""):
                raise
            logger.warning("A login by the identity provider failed: %r", str(error))
            return web.Response(status=302, headers={"Location": "/?login=failed", "Cache-Control": "no-store"})

    return handle


SESSION_ROUTES = (
    Route("GET", "/api/session", _session, Need.NOTHING),
    Route("POST", "/api/login", _login, Need.NOTHING),
    Route("POST", "/api/logout", _logout, Need.NOTHING),
    Route("GET", _OIDC_PATH, _shown(_begin_oidc), Need.NOTHING),
    Route("GET", f"{_OIDC_PATH}/done", _shown(_finish_oidc), Need.NOTHING),
)
