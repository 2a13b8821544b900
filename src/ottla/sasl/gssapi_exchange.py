"""GSSAPI (RFC 4752): a client proves who it is with a ticket of Kerberos.

    client   tokens of Kerberos, and the server's, until both ends are authenticated
    server   the security layers that it offers: none
    client   the layer that it chose, and the name that it wants to act in

Calls into Kerberos may read files and ask other machines, so the server's steps run on worker threads. The package
`gssapi` is needed, which is an extra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.model.deferred import Deferred
from ottla.sasl.exchange import SaslError

__all__ = ["GssapiClient", "GssapiServer", "RunStep", "keytab_credentials"]

# The messages are neither signed nor encrypted after the login, as in Apache Kafka: that is the task of TLS.
_NO_LAYER = 1
_OFFER = bytes((_NO_LAYER, 0, 0, 0))
MESSAGE_BYTES_MAX = 65_536

RunStep = Callable[[Callable[[bytes], bytes], bytes], Deferred[bytes]]


class GssapiServer:
    """`credentials` are those of the service; `short_name` maps a Kerberos principal to a user, or to None."""

    has_token = False
    groups: tuple[str, ...] = ()

    def __init__(self, credentials: Any, short_name: Callable[[str], str | None], run: RunStep) -> None:
        self._credentials = credentials
        self._short_name = short_name
        self._run = run
        self._context: Any = None
        self._is_offered = False
        self.is_complete = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> Deferred[bytes]:
        if len(token) > MESSAGE_BYTES_MAX:
            raise SaslError("A message of GSSAPI is too long.")
        return self._run(self._step, token)

    def _step(self, token: bytes) -> bytes:
        """Runs on a worker. The gate passes one message at a time."""
        import gssapi

        try:
            if self._context is None:
                self._context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
                # A failed step fails the login at once, and not with the next message.
                self._context.__DEFER_STEP_ERRORS__ = False
            if not self._context.complete:
                answer = bytes(self._context.step(token) or b"")
                if answer or not self._context.complete:
                    return answer
                return self._offer()
            return self._offer() if not self._is_offered else self._finish(token)
        except gssapi.exceptions.GSSError:
            # The text of the error may contain names of this host.
            raise SaslError("Kerberos refuses the client.") from None

    def _offer(self) -> bytes:
        self._is_offered = True
        return bytes(self._context.wrap(_OFFER, False).message)

    def _finish(self, token: bytes) -> bytes:
        chosen = bytes(self._context.unwrap(token).message)
        if len(chosen) < len(_OFFER) or chosen[0] != _NO_LAYER:
            raise SaslError("The client chose a security layer that was not offered.")
        # The user is that of the ticket. The name that the client wants to act in is ignored, as in Apache Kafka: some
        # clients send the name of the service.
        user = self._short_name(str(self._context.initiator_name))
        if user is None:
            raise SaslError("No rule of sasl.kerberos.principal.to.local.rules names the client.")
        self.user, self.is_complete = user, True
        return b""


class GssapiClient:
    """Blocks in its constructor and in `evaluate`: Kerberos may ask other machines for tickets."""

    def __init__(self, service: str, host: str, credentials: Any) -> None:
        import gssapi

        self._gssapi = gssapi
        try:
            name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            mechanism = gssapi.MechType.kerberos
            self._context = gssapi.SecurityContext(name=name, creds=credentials, mech=mechanism, usage="initiate")
            self._first = bytes(self._context.step() or b"")
        except gssapi.exceptions.GSSError as error:
            raise SaslError(f"There is no ticket for {service}/{host}: {error}") from None
        self._has_chosen = False
        self.is_complete = False

    def begin(self) -> bytes:
        return self._first

    def evaluate(self, challenge: bytes) -> bytes | None:
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            if self._has_chosen:
                self.is_complete = not challenge
                return None
            offered = bytes(self._context.unwrap(challenge).message)
            if not offered or not offered[0] & _NO_LAYER:
                raise SaslError("The server wants a security layer, which is not available.")
            self._has_chosen = True
            return bytes(self._context.wrap(_OFFER, False).message)
        except self._gssapi.exceptions.GSSError as error:
            raise SaslError(f"The server could not prove itself: {error}") from None


def keytab_credentials(keytab: str, principal: str | None, *, cache: str) -> Any:
    """The credentials of a client with a file of keys. `cache` names the tickets in memory. Raises SaslError."""
    import gssapi

    try:
        name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        store = {"client_keytab": keytab, "ccache": f"MEMORY:{cache}"}
        return gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store)
    except gssapi.exceptions.GSSError as error:
        user = "the first principal of the file" if principal is None else principal
        raise SaslError(f"The keys of {user} in {keytab} cannot be used: {error}") from None
