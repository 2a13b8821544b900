"""Kafka's own tools over TLS, with the stores that Java knows; and names of certificates as Java prints them."""

from __future__ import annotations

import base64
import datetime
import random
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from ottla.tls.authority import new_authority
from ottla.tls.certificates import parse_certificate
from ottla.tls.names import subject_name
from tests.java.conftest import require_java
from tests.support.brokers import QUICK_JVM_OPTIONS
from tests.support.java import PROGRAMS, ToolServer
from tests.support.secured import Certificates, SecuredNode

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# The login modules of mechanisms.
LOGINS = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM}
PASSWORD = "changeit"


@pytest.fixture(scope="module")
def java() -> Iterator[ToolServer]:
    require_java()
    with ToolServer(programs=[PROGRAMS / "CertificateNames.java"], options=QUICK_JVM_OPTIONS) as server:
        yield server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    created = Certificates(tmp_path_factory.mktemp("certificates"))
    alice = created.authority.for_client("alice")
    (created.directory / "client.p12").write_bytes(alice.pkcs12(PASSWORD))
    return created


@pytest.fixture(scope="module")
def node(
    java: ToolServer, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredNode]:
    settings = {
        **certificates.server_settings(),
        "listener.name.strict.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_bob="bob-secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=alice;User:bob",
        "auto.create.topics.enable": "false",
    }
    listeners = {"STRICT": "SSL", "LOGIN": "SASL_SSL"}
    with SecuredNode(tmp_path_factory.mktemp("node"), listeners, settings) as running:
        words = ["--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config"]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            credential = f"{mechanism}=[password=bob-secret]"
            done = java.run("ConfigCommand", "--bootstrap-server", running.node.bootstrap, *words, credential)
            assert done.status == 0, done.stdout + done.stderr
        yield running


def properties(certificates: Certificates, kind: str) -> dict[str, str]:
    if kind == "PKCS12":
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.trusted),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(certificates.directory / "client.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }
    if kind in LOGINS:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": kind,
            "sasl.jaas.config": f'{LOGINS[kind]} required username="bob" password="bob-secret";',
            **certificates.client_properties(with_key=False),
        }
    versions = {"TLSv1.2": {"ssl.enabled.protocols": "TLSv1.2"}}.get(kind, {})
    return {"security.protocol": "SSL", **certificates.client_properties(), **versions}


@pytest.mark.parametrize("kind", ["PEM", "TLSv1.2", "PKCS12", *LOGINS])
def test_tools_write_and_read(
    java: ToolServer, node: SecuredNode, certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    settings = properties(certificates, kind)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    listener = "LOGIN" if kind in LOGINS else "STRICT"
    topic = f"topic-{kind}"

    def run(tool: str, *words: str, stdin: str = "", config: str = "--command-config") -> str:
        done = java.run(
            tool, "--bootstrap-server", node.address(listener), config, str(file), "--topic", topic, *words, stdin=stdin
        )
        assert done.status == 0, done.stdout + done.stderr
        return done.stdout

    run("TopicCommand", "--create", "--partitions", "1")
    run("ConsoleProducer", stdin="one\ntwo\n")
    place = ["--partition", "0", "--offset", "earliest", "--max-messages", "2", "--timeout-ms", "60000"]
    assert run("ConsoleConsumer", *place).splitlines() == ["one", "two"]
    size = ["--num-records", "3000", "--record-size", "1000", "--throughput", "-1"]
    assert "3000 records sent" in run("ProducerPerformance", *size)


def test_a_client_without_a_certificate_is_refused(
    java: ToolServer, node: SecuredNode, certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    settings = {"security.protocol": "SSL", **certificates.client_properties(with_key=False)}
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    done = java.run(
        "TopicCommand", "--bootstrap-server", node.address("STRICT"), "--command-config", str(file), "--list"
    )
    assert done.status == 1
    assert "SslAuthenticationException" in done.stdout + done.stderr


def test_a_listener_with_stores_of_keytool(certificates: Certificates, tmp_path: Path) -> None:
    if shutil.which("keytool") is None:
        pytest.skip("keytool is missing")
    store = tmp_path / "node.p12"
    command = ["keytool", "-genkeypair", "-keystore", str(store), "-storepass", PASSWORD, "-keyalg", "EC"]
    command += ["-alias", "node", "-dname", "CN=node", "-ext", "SAN=DNS:localhost", "-storetype", "PKCS12"]
    subprocess.run(command, check=True, capture_output=True)
    command = ["keytool", "-exportcert", "-rfc", "-keystore", str(store), "-storepass", PASSWORD, "-alias", "node"]
    exported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    trusted = tmp_path / "trusted.p12"
    (tmp_path / "node.crt").write_text(exported)
    command = ["keytool", "-importcert", "-noprompt", "-keystore", str(trusted), "-storepass", PASSWORD]
    command += ["-alias", "node", "-file", str(tmp_path / "node.crt"), "-storetype", "PKCS12"]
    subprocess.run(command, check=True, capture_output=True)
    settings = {
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "requested",
    }
    with SecuredNode(tmp_path / "node", {"OPEN": "SSL"}, settings) as node:
        assert "CERTIFICATE" in ssl.get_server_certificate(
            ("127.0.0.1", node.ports["OPEN"]), ca_certs=str(tmp_path / "node.crt")
        )


OIDS = [
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.USER_ID,
    NameOID.TITLE,
    NameOID.GIVEN_NAME,
]
CHARACTERS = "aZ09 ,=+<>#;\"\\/'()-.:?@*äß€漢\t"


def test_names_are_printed_as_java_prints_them(java: ToolServer) -> None:
    chance = random.Random(7)
    authority = new_authority()
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    pem, names = [], []
    for _ in range(300):
        relative = [
            x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in attributes.items()])
            for attributes in (
                {
                    oid: "".join(chance.choices(CHARACTERS, k=chance.randint(1, 12)))
                    for oid in chance.sample(OIDS, chance.choice((1, 1, 1, 2)))
                }
                for _ in range(chance.randint(1, 5))
            )
        ]
        # These attributes allow no other characters.
        for oid, text in (
            (NameOID.EMAIL_ADDRESS, "a@b.c"),
            (NameOID.DOMAIN_COMPONENT, "x"),
            (NameOID.COUNTRY_NAME, "DE"),
        ):
            if chance.random() < 0.3:
                relative.append(x509.RelativeDistinguishedName([x509.NameAttribute(oid, text)]))
        pair = authority.issue(x509.Name(relative), valid=(start, start + datetime.timedelta(days=9000)))
        leaf = pair.certificates[: pair.certificates.index("-----END CERTIFICATE-----") + 26]
        pem.append(leaf)
        names.append(subject_name(parse_certificate(ssl.PEM_cert_to_DER_cert(leaf))))
    done = java.run_class("CertificateNames", stdin="".join(pem))
    printed = [base64.b64decode(line).decode() for line in done.stdout.split()]
    assert names == printed
