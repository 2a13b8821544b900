"""Who is logged in, what the cluster offers, login and logout."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from aiohttp import web

from ottla import __version__
from ottla.console.accounts import Account
from ottla.console.answers import ApiError, json_answer
from ottla.console.call import Call, Need, Route
from ottla.console.certificates import certified_user
from ottla.console.logins import MECHANISMS
from ottla.console.view import or_none

__all__ = ["SESSION_ROUTES"]


async def _session(call: Call) -> web.Response:
    services = call.services
    session_id = services.sessions.id_of(call.request)
    account = services.account_of(call.request)
    if account is None and (user := certified_user(call.request, services.settings.tls)) is not None:
        # The certificate is the login: a new session, as after a password.
        account = await services.logins.by_identity(user)
        session_id = services.sessions.begin(account)
    session_id = session_id or services.sessions.new_id()
    answer = json_answer(await _told(call, session_id, account))
    services.sessions.put(answer, session_id)
    return answer


async def _told(call: Call, session_id: str, account: Account | None) -> dict[str, Any]:
    services = call.services
    told: dict[str, Any] = {
        "user": None,
        "is_logged_in": False,
        "login": {
            "required": services.needs_login,
            "methods": _methods(call),
            "oidc_url": None if services.oidc is None else "/api/login/oidc",
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
        return told
    role, state = account.role, await or_none(account.view.state.get())
    features = await or_none(account.view.features.get())
    return {
        **told,
        "user": account.user,
        "is_logged_in": True,
        "role": role.name,
        "rights": {"read": role.can_read, "messages": role.can_read_messages, "write": role.can_write},
        "masked": bool(role.masks),
        "acts_as_user": account.acts_as_user,
        "cluster_id": None if state is None else state.cluster_id,
        "features": {**told["features"], **(features or {})},
    }


def _methods(call: Call) -> list[str]:
    services = call.services
    found = list(MECHANISMS) if services.settings.has_password_login else []
    if services.settings.tls is not None and services.settings.tls.authorities is not None:
        found.append("certificate")
    if services.oidc is not None:
        found.append("oidc")
    return found


async def _login(call: Call) -> web.Response:
    services = call.services
    if not services.settings.has_password_login:
        raise ApiError(404, "NOT_AVAILABLE", "This console has no login by password.")
    mechanism = call.text("mechanism", "") or None
    account = await services.logins.by_password(call.text("user"), call.text("password"), mechanism)
    return await _begun(call, account)


async def _begun(call: Call, account: Account) -> web.Response:
    """The old session ends, and the browser gets a new id: an id that was planted in it stays worthless."""
    sessions = call.services.sessions
    sessions.end(sessions.id_of(call.request))
    session_id = sessions.begin(account)
    answer = json_answer(await _told(call, session_id, account))
    sessions.put(answer, session_id)
    return answer


async def _logout(call: Call) -> web.Response:
    sessions = call.services.sessions
    sessions.end(sessions.id_of(call.request))
    answer = json_answer({"is_logged_in": False})
    sessions.put(answer, sessions.new_id())
    return answer


async def _begin_oidc(call: Call) -> web.Response:
    services = call.services
    if services.oidc is None:
        raise ApiError(404, "NOT_AVAILABLE", "This console has no identity provider.", "Start it with --oidc-issuer.")
    session_id = services.sessions.id_of(call.request) or services.sessions.new_id()
    base = services.settings.public_url or f"{call.request.scheme}://{call.request.host}"
    redirect = f"{base.rstrip('/')}/api/login/oidc/done"
    address = await services.oidc.begin(session_id, redirect=redirect, to=call.query.get("to", "/"))
    answer = web.Response(status=302, headers={"Location": address, "Cache-Control": "no-store"})
    services.sessions.put(answer, session_id)
    return answer


async def _finish_oidc(call: Call) -> web.Response:
    services, query = call.services, call.query
    if services.oidc is None:
        raise ApiError(404, "NOT_AVAILABLE", "This console has no identity provider.")
    if "error" in query:
        raise ApiError(401, "LOGIN_FAILED", f"The identity provider refused the login: {query['error'][:200]}.")
    session_id = services.sessions.id_of(call.request)
    identity, to = await services.oidc.finish(session_id, state=query.get("state", ""), code=query.get("code", ""))
    if services.oidc.settings.reaches_cluster:
        account = await services.logins.by_token(identity.user, identity.access_token, identity.groups)
    else:
        account = await services.logins.by_identity(identity.user, identity.groups)
    services.sessions.end(session_id)
    answer = web.Response(status=302, headers={"Location": to, "Cache-Control": "no-store"})
    services.sessions.put(answer, services.sessions.begin(account))
    return answer


SESSION_ROUTES = (
    Route("GET", "/api/session", _session, Need.NOTHING),
    Route("POST", "/api/login", _login, Need.NOTHING),
    Route("POST", "/api/logout", _logout, Need.NOTHING),
    Route("GET", "/api/login/oidc", _begin_oidc, Need.NOTHING),
    Route("GET", "/api/login/oidc/done", _finish_oidc, Need.NOTHING),
)
