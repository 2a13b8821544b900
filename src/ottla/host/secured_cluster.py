"""The files and settings of a secured cluster on one machine: `ottla up --secure`.

    DIR/ca.pem                  the certificate of the authority, which clients trust
    DIR/client.properties       for Kafka's tools and `--command-config`: addresses, trust, certificate and first user
    DIR/librdkafka.properties   the same for librdkafka
    DIR/client.pem              a client's key and certificate
    DIR/clients/                certificates of further clients: `ottla certificates create`
    DIR/secure/                 the authority's key, and the keys and certificates of the nodes

Clients use the listener CLIENTS (SASL_SSL, SCRAM). Nodes use NODES and CONTROLLER, which demand a certificate of this
authority. The first user and the nodes are super users; other principals have no rights. A second start uses
the same files; only the certificates of nodes are renewed when their names change or they grow old.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence

from ottla.model.config import format_properties

__all__ = [
    "CLIENTS",
    "CONTROLLER",
    "FIRST_USER",
    "MECHANISM",
    "NODES",
    "client_settings",
    "first_password",
    "is_secured",
    "listener_properties",
    "make_client_certificate",
    "make_files",
    "security_properties",
    "write_client_files",
]

FIRST_USER = "admin"
MECHANISM = "SCRAM-SHA-512"
CLIENTS, NODES, CONTROLLER = "CLIENTS", "NODES", "CONTROLLER"

# The name in the certificate of every node.
_NODE_NAME = "ottla-node"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
# Certificates are valid for 820 days; a start renews certificates that are older than this.
_RENEWAL_SECONDS = 600 * 24 * 3600.0
_PASSWORD_BYTES = 24


def is_secured(data: str) -> bool:
    """True if the cluster in this directory was created with `make_files`."""
    return os.path.exists(_path(data, "secure", "authority.key"))


def make_files(data: str, nodes: int, *, names: Sequence[str]) -> None:
    """Makes the authority, the certificates and the first password, unless they exist.

    `names` are the host names and addresses by which clients reach the nodes.
    """
    os.makedirs(_path(data, "secure"), mode=0o700, exist_ok=True)
    authority_key, trusted = _path(data, "secure", "authority.key"), _path(data, "ca.pem")
    stale = [node_id for node_id in range(1, nodes + 1) if not _is_current(data, node_id, names)]
    has_authority = os.path.exists(authority_key)
    if has_authority and not stale:
        return
    # Imported here: most starts need no new certificate.
    from ottla.tls.authority import Authority, new_authority

    if has_authority:
        authority = Authority.load(_read(authority_key), _read(trusted))
    else:
        authority = new_authority("Ottla authority of this cluster")
        _write(_path(data, "client.pem"), authority.for_client(FIRST_USER).store)
        _write(_path(data, "secure", "password"), secrets.token_urlsafe(_PASSWORD_BYTES))
        _write(trusted, authority.certificate, mode=0o644)
        # Last: its presence means that the other files are complete.
        _write(authority_key, authority.key)
    for node_id in stale:
        _write(_node_store(data, node_id), authority.for_node(*names, common_name=_NODE_NAME).store)
        _write(_names_file(data, node_id), "\n".join(names))


def make_client_certificate(data: str, name: str, *, groups: Sequence[str] = (), days: float | None = None) -> str:
    """Makes a key and a certificate of a further client, and returns their file. Raises FileExistsError.

    The principal is `User:CN=<name>`, with the groups behind it as organizational units.
    """
    from ottla.tls.authority import CERTIFICATE_DAYS, Authority

    authority = Authority.load(_read(_path(data, "secure", "authority.key")), _read(_path(data, "ca.pem")))
    directory = _path(data, "clients")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = os.path.join(directory, f"{name}.pem")
    if os.path.exists(path):
        raise FileExistsError(path)
    _write(path, authority.for_client(name, groups=groups, days=days or CERTIFICATE_DAYS).store)
    return path


def first_password(data: str) -> str:
    return _read(_path(data, "secure", "password")).strip()


def listener_properties(
    *, addresses: Mapping[str, str], advertised: Mapping[str, str], is_controller: bool
) -> dict[str, str]:
    """The listeners of a node. Both mappings have `host:port` by the name of the listener."""
    names = (CLIENTS, NODES, CONTROLLER) if is_controller else (CLIENTS, NODES)
    return {
        "listeners": ",".join(f"{name}://{addresses[name]}" for name in names),
        "advertised.listeners": ",".join(f"{name}://{advertised[name]}" for name in (CLIENTS, NODES)),
        "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{NODES}:SSL,{CONTROLLER}:SSL",
        "inter.broker.listener.name": NODES,
    }


def security_properties(data: str, node_id: int) -> dict[str, str]:
    """Everything but the listeners."""
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": _node_store(data, node_id),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": _path(data, "ca.pem"),
        f"listener.name.{CLIENTS.lower()}.ssl.client.auth": "requested",
        f"listener.name.{NODES.lower()}.ssl.client.auth": "required",
        f"listener.name.{CONTROLLER.lower()}.ssl.client.auth": "required",
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:{FIRST_USER};User:CN={_NODE_NAME}",
    }


def client_settings(data: str, bootstrap: str) -> dict[str, str]:
    """The properties of a client with the rights of the first user, as Kafka's tools read them."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": (f'{_LOGIN_MODULE} required username="{FIRST_USER}" password="{first_password(data)}";'),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": _path(data, "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": _path(data, "client.pem"),
    }


def write_client_files(data: str, bootstrap: str) -> None:
    """Writes the files of clients with the addresses of this start."""
    _write(_path(data, "client.properties"), format_properties(client_settings(data, bootstrap)))
    librdkafka = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": FIRST_USER,
        "sasl.password": first_password(data),
        "ssl.ca.location": _path(data, "ca.pem"),
        "ssl.certificate.location": _path(data, "client.pem"),
        "ssl.key.location": _path(data, "client.pem"),
    }
    _write(_path(data, "librdkafka.properties"), format_properties(librdkafka))


def _is_current(data: str, node_id: int, names: Sequence[str]) -> bool:
    try:
        age = time.time() - os.stat(_node_store(data, node_id)).st_mtime
        return age < _RENEWAL_SECONDS and set(names) <= set(_read(_names_file(data, node_id)).split("\n"))
    except FileNotFoundError:
        return False


def _node_store(data: str, node_id: int) -> str:
    return _path(data, "secure", f"node-{node_id}.pem")


def _names_file(data: str, node_id: int) -> str:
    return _path(data, "secure", f"node-{node_id}.names")


def _path(data: str, *parts: str) -> str:
    return os.path.join(os.path.abspath(data), *parts)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str, *, mode: int = 0o600) -> None:
    """Replaces a file as a whole. It has its permissions from the first byte on."""
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
    os.replace(temporary, path)
