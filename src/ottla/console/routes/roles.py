"""Roles of the cluster: named sets of access rules, and the principals that have them (`ottla roles`)."""

from __future__ import annotations

from typing import Any

from ottla.cli.logic.role_plan import Role, check_principals, plan, selection
from ottla.cli.logic.role_store import read_roles, write_role
from ottla.console.answers import ApiError, PageRequest, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.routes.access import acl_json, acl_sentence
from ottla.console.words import count_of

__all__ = ["ROLE_ROUTES"]


async def _roles(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query)
    roles = await read_roles(call.admin, call.account.settings)
    names = [name for name in roles if page.matches(name)]
    items = [_item(roles[name]) for name in page.cut(names, lambda name: name)]
    return page_of(items, len(names), page)


def _item(role: Role) -> dict[str, Any]:
    return {
        "name": role.name,
        "rules": [acl_sentence(rule._replace(principal="Its principal")) for rule in role.rules],
        "acls": [acl_json(rule) for rule in role.rules],
        "bindings": list(role.members),
    }


async def _bind(call: Call) -> Change:
    return await _changed(call, is_bound=True)


async def _unbind(call: Call) -> Change:
    return await _changed(call, is_bound=False)


async def _changed(call: Call, *, is_bound: bool) -> Change:
    name, (principal,) = call.part("name"), check_principals([call.text("principal")])
    before = await read_roles(call.admin, call.account.settings)
    role = before.get(name)
    if role is None:
        raise ApiError(404, "NOT_FOUND", f"There is no role {name!r}.")
    if is_bound == (principal in role.members):
        reason = "has the role already" if is_bound else "does not have the role"
        raise ApiError(409, "INVALID_REQUEST", f"{principal} {reason}.")
    members = (
        (*role.members, principal) if is_bound else tuple(member for member in role.members if member != principal)
    )
    changed = role._replace(members=members)
    planned = plan(before, {**before, name: changed}, await call.admin.acls.describe())

    async def apply() -> dict[str, Any]:
        # New rules are created before the role is written, and old rules are deleted after it. A change that fails can
        # be repeated then.
        if planned.created:
            await call.admin.acls.create(planned.created)
        await write_role(call.admin, call.account.settings, name, changed)
        if planned.deleted:
            await call.admin.acls.delete([selection(acl) for acl in planned.deleted])
        return _item(changed)

    action = f"Gives role {name} to {principal}" if is_bound else f"Takes role {name} from {principal}"
    count = count_of(len(planned.created if is_bound else planned.deleted), "access rule")
    return Change(
        plan=[f"{action}: {count} {'added' if is_bound else 'removed'}."],
        command=command_line("roles", "bind" if is_bound else "unbind", name, options=[("--principal", principal)]),
        apply=apply,
    )


ROLE_ROUTES = (
    Route("GET", "/api/roles", _roles),
    Route("POST", "/api/roles/{name}/bindings", _bind, Need.WRITE),
    Route("DELETE", "/api/roles/{name}/bindings", _unbind, Need.WRITE),
)
