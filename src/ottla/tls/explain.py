"""Sentences about failed handshakes: what went wrong, and which setting to check."""

from __future__ import annotations

import ssl

__all__ = ["explain_client_failure", "explain_server_failure"]

# Codes of X509_verify_cert.
_EXPIRED = 10
_NOT_YET_VALID = 9
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_NAME_DIFFERS = (62, 64)

_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")


def explain_client_failure(error: OSError, host: str) -> str:
    """Why a client could not connect with TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the node is not accepted: {_certificate_problem(error, host)}"
    reason = _reason(error)
    if reason in _NOT_TLS:
        return (
            "the port does not speak TLS: check the port, or set security.protocol to PLAINTEXT or SASL_PLAINTEXT, as "
            "the listener has it"
        )
    if _is_end(error):
        return (
            "the node ended the TLS handshake: check that the port is a listener with SSL or SASL_SSL, and that it "
            "accepts the certificate of this client (ssl.keystore.location), if it asks for one"
        )
    if "CERTIFICATE_REQUIRED" in reason:
        return "the node demands a certificate of its clients: set ssl.keystore.location or ssl.keystore.key"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason or "CERTIFICATE_UNKNOWN" in reason:
        return (
            "the node does not accept the certificate of this client: check ssl.keystore.location, and that the "
            "listener trusts its authority"
        )
    if "CERTIFICATE_EXPIRED" in reason:
        return "the certificate of this client has expired: check ssl.keystore.location"
    if reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"):
        return "the node does not speak the same version of TLS: check ssl.enabled.protocols"
    if "HANDSHAKE_FAILURE" in reason or reason == "NO_SHARED_CIPHER":
        return "no cipher suite or version of TLS in common: check ssl.cipher.suites and ssl.enabled.protocols"
    return f"the TLS handshake failed ({reason.lower().replace('_', ' ') or error.strerror or error})"


def explain_server_failure(error: OSError) -> str:
    """Why a client's handshake failed, for the log of a listener."""
    reason = _reason(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is not accepted: {error.verify_message}"
    if reason in _NOT_TLS:
        return "the client does not speak TLS; its security.protocol must be that of the listener"
    if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
        return "the client has shown no certificate, which ssl.client.auth=required demands"
    if reason in ("NO_SHARED_CIPHER", "UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW"):
        return "no cipher suite or version of TLS in common with the client"
    if "UNKNOWN_CA" in reason or "CERTIFICATE_UNKNOWN" in reason or "BAD_CERTIFICATE" in reason:
        return "the client does not accept the certificate of this listener; check its trust store and the host name"
    if "CERTIFICATE_EXPIRED" in reason:
        return "the client says that the certificate of this listener has expired"
    return f"the TLS handshake failed ({reason.lower().replace('_', ' ') or error.strerror or error})"


def _certificate_problem(error: ssl.SSLCertVerificationError, host: str) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "it has expired; renew it on the node"
    if code == _NOT_YET_VALID:
        return "it is not valid yet; check the clock of this machine"
    if code in _UNKNOWN_AUTHORITY:
        return (
            "no certificate of the trust store has signed it; set ssl.truststore.location, or "
            "ssl.truststore.certificates, to the authority of the cluster"
        )
    if code in _NAME_DIFFERS:
        return (
            f"it is not for {host}; connect by a name that it has, or set ssl.endpoint.identification.algorithm to "
            "nothing, which accepts any name"
        )
    return error.verify_message


def _reason(error: OSError) -> str:
    return (getattr(error, "reason", None) or "").upper()


def _is_end(error: OSError) -> bool:
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError) or _reason(error) in (
        "UNEXPECTED_EOF_WHILE_READING",
    )
