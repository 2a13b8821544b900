"""`ottla api-versions`: the request versions of each broker."""

from __future__ import annotations

import click

from ottla.cli.session import Session, cluster_options
from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.wire.api import API_SPECS, ApiKey

__all__ = ["api_versions"]


@click.command(help="Show the request versions of each broker (kafka-broker-api-versions).")
@click.argument("apis", nargs=-1, metavar="[API]...")
@cluster_options
def api_versions(session: Session, apis: tuple[str, ...]) -> int:
    wanted = {name.lower() for name in apis}

    async def work(admin: AdminClient) -> None:
        await admin.connections.refresh([])
        answers = []
        for node, response in (await admin.cluster.api_versions()).items():
            if isinstance(response, ClientError):
                session.output.complain(f"broker {node.node_id}", response)
                continue
            rows = [
                (
                    _name(api.api_key),
                    api.api_key,
                    f"{api.min_version} to {api.max_version}",
                    _usable(api.api_key, api.max_version),
                )
                for api in sorted(response.api_keys, key=lambda api: api.api_key)
                if not wanted or _name(api.api_key).lower() in wanted
            ]
            session.output.say(f"{node.host}:{node.port} (id: {node.node_id} rack: {node.rack or '-'})")
            session.output.table(("API", "KEY", "VERSIONS", "USABLE"), rows, right=(1, 3))
            session.output.say()
            answers.append(
                {
                    "node": node.node_id,
                    "host": node.host,
                    "port": node.port,
                    "rack": node.rack,
                    "apis": {
                        _name(api.api_key): {"key": api.api_key, "min": api.min_version, "max": api.max_version}
                        for api in response.api_keys
                    },
                }
            )
        session.output.emit(answers)

    return session.run(work)


def _name(key: int) -> str:
    try:
        return API_SPECS[ApiKey(key)].name
    except (ValueError, KeyError):
        return f"UNKNOWN({key})"


def _usable(key: int, highest: int) -> int | None:
    """The version that this command would use."""
    try:
        return min(API_SPECS[ApiKey(key)].request_max_version, highest)
    except (ValueError, KeyError):
        return None
