"""Names of topics and groups as types of parameters: a shell that completes one asks the cluster.

Completion runs while the user types. It asks the cluster that the line names so far, or the default one, and waits at
most a second. Without an answer it offers no names and prints no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import click
from click.shell_completion import CompletionItem

from ottla.cli.failures import Failure
from ottla.cli.session import make_session, run_async
from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError

__all__ = ["GROUP", "PROFILE", "TOPIC", "TOPICS"]

_PATIENCE_MS = 1_000

Find = Callable[[AdminClient], Awaitable[list[str]]]


class _ClusterName(click.types.StringParamType):
    """Any text. `find` returns the existing names; `separator` separates several names in one word."""

    def __init__(self, name: str, find: Find, *, separator: str | None = None) -> None:
        self.name = name
        self._find = find
        self._separator = separator

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        cut = incomplete.rfind(self._separator) + 1 if self._separator else 0
        before, begun = incomplete[:cut], incomplete[cut:]
        value = ctx.params.get(param.name or "")
        already = value if isinstance(value, tuple) else ()
        return [
            CompletionItem(before + name)
            for name in sorted(_ask(ctx, self._find))
            # Internal topics are offered only if the word already begins like one.
            if name.startswith(begun) and name not in already and (begun or not name.startswith("__"))
        ]


class _ProfileName(click.types.StringParamType):
    """The name of a profile, which no cluster knows."""

    name = "profile"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        from ottla.cli.profiles import Profiles

        return [CompletionItem(name) for name in Profiles().names() if name.startswith(incomplete)]


def _ask(ctx: click.Context, find: Find) -> list[str]:
    async def whole() -> list[str]:
        # One attempt is enough if no broker listens.
        settings = replace(session.settings, bootstrap_timeout_ms=0)
        async with asyncio.timeout(_PATIENCE_MS / 1000), AdminClient(settings) as admin:
            return await find(admin)

    try:
        session = make_session(
            ctx.params.get("bootstrap"),
            ctx.params.get("command_config"),
            ctx.params.get("profile"),
            as_json=False,
            timeout_ms=_PATIENCE_MS,
        )
        return run_async(whole())
    except (ClientError, KafkaError, Failure, OSError, ValueError, click.ClickException):
        # An error message would be printed into the line that the user types.
        return []


async def _topics(admin: AdminClient) -> list[str]:
    return await admin.topics.names()


async def _groups(admin: AdminClient) -> list[str]:
    return [group.group_id for group in await admin.groups.find()]


PROFILE = _ProfileName()
TOPIC = _ClusterName("topic", _topics)
TOPICS = _ClusterName("topics", _topics, separator=",")
GROUP = _ClusterName("group", _groups)
