"""The metrics endpoint over HTTPS."""

from __future__ import annotations

import re
import ssl
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from ottla.host.free_ports import free_ports
from tests.support.secured import Certificates, SecuredNode


def test_metrics_and_health_are_encrypted(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    (port,) = free_ports(1)
    settings = {
        **certificates.server_settings("listener.name.metrics."),
        "listener.name.metrics.ssl.client.auth": "required",
        "ottla.metrics.listener": f"https://127.0.0.1:{port}",
    }
    with SecuredNode(tmp_path / "node", {}, settings) as node:
        context = ssl.create_default_context(cafile=str(certificates.trusted))
        with pytest.raises((URLError, OSError)):
            urlopen(f"https://localhost:{port}/health/live", context=context, timeout=30).read()
        context.load_cert_chain(certificates.client)
        with urlopen(f"https://localhost:{port}/health/ready", context=context, timeout=30) as answer:
            assert answer.read() == b"ready\n"
        with urlopen(f"https://localhost:{port}/metrics", context=context, timeout=30) as answer:
            text = answer.read()
        assert b"ottla_tls_handshakes_failed_total" in text
        expiry = re.search(rb'ottla_tls_certificate_expiry_timestamp_seconds\{listener="METRICS"\} ([0-9.e+]+)', text)
        assert expiry is not None
        assert float(expiry[1]) > time.time() + 800 * 86_400
        assert text.endswith(b"\n")
        # A client without TLS gets no answer.
        with pytest.raises((URLError, OSError)):
            urlopen(f"http://localhost:{port}/metrics", timeout=30).read()
        assert "has no effect" not in node.output
