"""`ottla certificates`: client certificates of the authority that `ottla up --secure` created."""

from __future__ import annotations

import os
import re
import ssl
import time

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.cli.session import json_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.host.secured_cluster import is_secured, make_client_certificate
from ottla.tls.certificates import DerError, parse_certificate
from ottla.tls.names import subject_name
from ottla.tls.stores import certificates_in_pem

__all__ = ["certificates"]

# The name of a client is also its file name.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
data_option = click.option(
    "-d",
    "--data",
    default="data",
    metavar="DIR",
    help="The directory of 'ottla up --secure --data DIR'.  [default: data]",
)


@click.group(cls=VerbGroup, default="list", help=COMMANDS["certificates"].help)
def certificates() -> None:
    """The verbs are below."""


@certificates.command("create", help="Make a key and a certificate of a client, in DIR/clients/NAME.pem.")
@click.argument("name")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the client (OU). May be repeated.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), metavar="DAYS", help="How long it is valid.")
@data_option
@json_option
def create(name: str, groups: tuple[str, ...], days: float | None, data: str, as_json: bool) -> int:
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"{name!r} cannot be the name of a certificate: use letters, digits, '.', '_' and '-'.")
    if any(not 1 <= len(group) <= 64 for group in groups):
        raise click.UsageError("The name of a group has 1 to 64 characters.")
    if not is_secured(data):
        raise Failure(f"There is no certificate authority in {data}; 'ottla up --secure --data {data}' makes one.")
    try:
        path = make_client_certificate(data, name, groups=groups, days=days)
    except FileExistsError as error:
        raise Failure(f"{error} exists already; remove it first, or choose another name.") from None
    output = Output(as_json=as_json)
    principal = _described(path)[0]
    output.say(f"Wrote {path}; its principal is {principal}.")
    output.emit({"name": name, "file": path, "principal": principal})
    return output.exit_code


@certificates.command("list", help="List the certificates of clients, and when they expire.")
@data_option
@json_option
def list_certificates(data: str, as_json: bool) -> int:
    if not is_secured(data):
        raise Failure(f"There is no certificate authority in {data}; 'ottla up --secure --data {data}' makes one.")
    directory = os.path.join(data, "clients")
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    paths = [os.path.join(data, "client.pem"), *(os.path.join(directory, name) for name in names)]
    rows = [(path, *_described(path)) for path in paths if path.endswith(".pem")]
    output = Output(as_json=as_json)
    output.table(("FILE", "PRINCIPAL", "EXPIRES"), rows, fold=(0, 1), none="There are no certificates of clients.")
    output.emit([{"file": path, "principal": principal, "expires": expires} for path, principal, expires in rows])
    return output.exit_code


def _described(path: str) -> tuple[str, str]:
    """The principal of a certificate, and the time when it expires."""
    try:
        with open(path, encoding="utf-8") as file:
            first = certificates_in_pem(file.read().encode())[0].decode()
        certificate = parse_certificate(ssl.PEM_cert_to_DER_cert(first))
    except (OSError, ValueError, IndexError, DerError) as error:
        raise Failure(f"{path} cannot be read as a certificate: {error}.") from None
    expires = time.strptime(certificate.not_after[:14], "%Y%m%d%H%M%S")
    return f"User:{subject_name(certificate)}", time.strftime("%Y-%m-%dT%H:%M:%SZ", expires)
