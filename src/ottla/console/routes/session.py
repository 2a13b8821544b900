"""Who is logged in, and what the cluster offers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from aiohttp import web

from ottla import __version__
from ottla.console.answers import json_answer
from ottla.console.call import Call, Need, Route
from ottla.console.view import or_none

__all__ = ["SESSION_ROUTES"]


async def _session(call: Call) -> web.Response:
    sessions = call.services.sessions
    session_id = sessions.id_of(call.request) or sessions.new_id()
    answer = json_answer(await _told(call, session_id))
    sessions.put(answer, session_id)
    return answer


async def _told(call: Call, session_id: str) -> dict[str, Any]:
    services, role = call.services, call.account.role
    state = await or_none(call.view.state.get())
    return {
        "user": call.account.user,
        "is_logged_in": not services.needs_login,
        "login": {"required": services.needs_login, "methods": [], "oidc_url": None},
        "role": role.name,
        "rights": {"read": role.can_read, "messages": role.can_read_messages, "write": role.can_write},
        "masked": False,
        "csrf_token": services.sessions.token_of(session_id),
        "cluster_id": None if state is None else state.cluster_id,
        "version": __version__,
        "features": await _features(call),
    }


async def _features(call: Call) -> dict[str, bool]:
    services = call.services
    own = {
        "metrics": services.metrics.is_known,
        "registry": services.registry is not None,
        "connect": services.connect is not None,
        "expressions": find_spec("celpy") is not None,
    }
    if services.needs_login and not services.is_logged_in(call.request):
        return own
    return {**own, **(await or_none(call.view.features.get()) or {})}


SESSION_ROUTES = (Route("GET", "/api/session", _session, Need.NOTHING),)
