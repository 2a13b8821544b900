"""`/contexts/{context}/...`: every path again, within one context. Clients configure it as the end of their address."""

from __future__ import annotations

from urllib.parse import quote

from aiohttp import web
from yarl import URL

from ottla.registry.node.metrics import TEMPLATE, template_of

__all__ = ["in_context", "plain_path"]

# The first step of the paths whose next step is a subject.
_OWNERS = ("subjects", "config", "mode")
_DEFAULT = ":.:"


async def in_context(request: web.Request) -> web.StreamResponse:
    plain = request.clone(rel_url=plain_path(request.rel_url))
    match = await request.app.router.resolve(plain)
    plain._match_info = match
    match.add_app(request.app)
    request[TEMPLATE] = "/contexts/{context}" + template_of(plain)
    return await match.handler(plain)


def plain_path(url: URL) -> URL:
    """The path without its context, which goes to the subject, or to the query where there is no subject."""
    _, _, context, *steps = url.raw_path.split("/")
    name = URL.build(path=context, encoded=True).path.strip(":")
    prefix = f":{name if name.startswith('.') else '.' + name}:"
    query = url.query
    place = 1 if steps[0] in _OWNERS else 2 if steps[:2] == ["compatibility", "subjects"] else None
    if place is not None and len(steps) > place and steps[place]:
        if not steps[place].startswith((":", "%3A", "%3a")):
            steps[place] = quote(prefix, safe="") + steps[place]
    elif steps[0] in ("config", "mode"):
        # The settings of the default context are the global ones.
        steps[1:] = [] if prefix == _DEFAULT else [quote(prefix, safe="")]
    else:
        name = "subject" if steps[:2] == ["schemas", "ids"] else "subjectPrefix"
        query = query.copy()
        query[name] = prefix + query.get(name, "") if not query.get(name, "").startswith(":") else query[name]
    return URL.build(path="/" + "/".join(steps), encoded=True).with_query(query)
