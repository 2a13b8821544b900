"""`ottla delegation-tokens`: short-lived credentials that act for a user."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from ottla.cli.session import Session, cluster_options
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.tokens import DelegationToken

__all__ = ["delegation_tokens"]

_HMAC = click.option("--hmac", "hmac", required=True, metavar="TEXT", help="The token's HMAC, in base64.")
_OWNERS = click.option(
    "--owner-principal", "owners", multiple=True, metavar="User:NAME", help="The owner; may be repeated for describe."
)


@click.group(
    cls=VerbGroup, default="describe", help="Create, renew, expire and describe tokens (kafka-delegation-tokens)."
)
def delegation_tokens() -> None:
    """The verbs are below."""


@delegation_tokens.command("create", help="Create a token for yourself or for another owner.")
@click.option("--renewer-principal", "renewers", multiple=True, metavar="User:NAME", help="Who may renew it, too.")
@click.option(
    "--max-life-time-period",
    "lifetime_ms",
    type=int,
    default=-1,
    metavar="MS",
    help="Its longest lifetime.  [default: the cluster's]",
)
@_OWNERS
@cluster_options
def create(session: Session, renewers: tuple[str, ...], lifetime_ms: int, owners: tuple[str, ...]) -> int:
    if len(owners) > 1:
        raise click.UsageError("A token has one owner.")

    async def work(admin: AdminClient) -> None:
        token = await admin.tokens.create(
            renewers=renewers, max_lifetime_ms=lifetime_ms, owner=owners[0] if owners else None
        )
        _show(session, [token])

    return session.run(work)


@delegation_tokens.command("renew", help="Move the expiry time of a token.")
@_HMAC
@click.option(
    "--renew-time-period",
    "period_ms",
    type=int,
    default=-1,
    metavar="MS",
    help="From now on.  [default: the cluster's]",
)
@cluster_options
def renew(session: Session, hmac: str, period_ms: int) -> int:
    code = _decoded(hmac)

    async def work(admin: AdminClient) -> None:
        _show_expiry(session, await admin.tokens.renew(code, period_ms=period_ms))

    return session.run(work)


@delegation_tokens.command("expire", help="Set the expiry time of a token, or remove it at once.")
@_HMAC
@click.option(
    "--expiry-time-period",
    "period_ms",
    type=int,
    default=-1,
    metavar="MS",
    help="From now on; -1 removes the token at once.  [default: -1]",
)
@cluster_options
def expire(session: Session, hmac: str, period_ms: int) -> int:
    code = _decoded(hmac)

    async def work(admin: AdminClient) -> None:
        _show_expiry(session, await admin.tokens.expire(code, period_ms=period_ms))

    return session.run(work)


@delegation_tokens.command("describe", help="Show the tokens that you may see, with their secrets.")
@_OWNERS
@cluster_options
def describe(session: Session, owners: tuple[str, ...]) -> int:
    async def work(admin: AdminClient) -> None:
        _show(session, await admin.tokens.describe(owners or None))

    return session.run(work)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise click.UsageError("--hmac is not base64; copy it as `describe` shows it.") from None


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _show(session: Session, tokens: Sequence[DelegationToken]) -> None:
    if not tokens:
        session.output.say("There are no tokens.")
    else:
        session.output.table(
            ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE"),
            [
                (
                    token.token_id,
                    token.password,
                    token.owner,
                    token.requester,
                    ",".join(token.renewers) or "-",
                    _time(token.issued_ms),
                    _time(token.expires_ms),
                    _time(token.max_ms),
                )
                for token in tokens
            ],
        )
    session.output.emit(
        [
            {
                "tokenId": token.token_id,
                "hmac": token.password,
                "owner": token.owner,
                "requester": token.requester,
                "renewers": list(token.renewers),
                "issueTimestamp": token.issued_ms,
                "expiryTimestamp": token.expires_ms,
                "maxTimestamp": token.max_ms,
            }
            for token in tokens
        ]
    )


def _show_expiry(session: Session, expires_ms: int) -> None:
    session.output.say(f"The token expires at {_time(expires_ms)}.")
    session.output.emit([{"expiryTimestamp": expires_ms}])
