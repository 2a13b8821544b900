"""The metrics page of a registry, read as Prometheus reads it."""

from __future__ import annotations

import base64
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import ottla.testing
from ottla.registry.node.metrics import METRICS
from tests.support.registries import RegistryProcess, registry_process

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
PERSON = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"}]}'


@pytest.fixture(scope="module")
def pair(shared_cluster: ottla.testing.Cluster) -> Iterator[tuple[RegistryProcess, RegistryProcess]]:
    """Two instances of a registry: the writer, and the instance that forwards to it."""
    name = uuid.uuid4().hex
    options = ("--group", f"group-{name}", "--topic", f"schemas-{name}")
    with (
        registry_process(shared_cluster.bootstrap, *options) as first,
        registry_process(shared_cluster.bootstrap, *options) as second,
    ):
        writers = [instance for instance in (first, second) if value(scrape(instance), "ottla_registry_is_writer") == 1]
        assert len(writers) == 1
        yield writers[0], second if writers[0] is first else first


def scrape(registry: RegistryProcess) -> Samples:
    page = registry.get("/metrics")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def test_requests_are_counted_by_the_template_of_their_path(pair: tuple[RegistryProcess, RegistryProcess]) -> None:
    writer, _ = pair
    before = scrape(writer)
    for subject in ("one", "two/three"):
        writer.register(subject.replace("/", "%2F"), PERSON)
        assert writer.ask("GET", f"/subjects/{subject.replace('/', '%2F')}/versions/")[0] == 200
    assert writer.code("GET", "/subjects/missing/versions") == (404, 40401)
    assert writer.ask("GET", "/contexts/.lab/subjects/one/versions")[0] == 404
    assert writer.ask("GET", "/no/such/path")[0] == writer.ask("GET", "/nor/this")[0] == 404
    assert writer.ask("TRACE", "/subjects")[0] == 405
    after = scrape(writer)

    def grown(name: str, **labels: str) -> float:
        return (value(after, name, **labels) or 0) - (value(before, name, **labels) or 0)

    path = "/subjects/{subject}/versions"
    requests = "ottla_registry_requests_total"
    assert grown(requests, method="POST", path=path, status="200") == 2
    assert grown(requests, method="GET", path=path, status="200") == 2
    assert grown(requests, method="GET", path=path, status="404") == 1
    assert grown(requests, method="GET", path="/contexts/{context}" + path, status="404") == 1
    assert grown(requests, method="GET", path="other", status="404") == 2
    assert grown(requests, method="other", path="other", status="405") == 1
    assert grown("ottla_registry_errors_total", code="40401") == 2
    assert grown("ottla_registry_request_seconds_count", method="GET", path=path) == 3
    assert grown("ottla_registry_request_seconds_bucket", method="GET", path=path, le="+Inf") == 3
    assert grown("ottla_registry_request_seconds_sum", method="POST", path=path) > 0
    assert not any("one" in dict(labels).values() for _, labels in after)


def test_schemas_are_counted(pair: tuple[RegistryProcess, RegistryProcess]) -> None:
    writer, _ = pair
    before = scrape(writer)
    names = ("ottla_registry_subjects", "ottla_registry_versions")
    for subject in ("a", "b"):
        writer.register(f"counted-{subject}", '{"type":"string"}', schemaType="JSON")
    writer.ask("PUT", "/config/counted-a", {"compatibility": "NONE"})
    writer.register("counted-a", '{"type":"number"}', schemaType="JSON")
    after = scrape(writer)
    assert [(value(after, name) or 0) - (value(before, name) or 0) for name in names] == [2, 3]
    # Both subjects share the schema id of their common text.
    assert value(after, "ottla_registry_schemas", type="JSON") == 2
    writer.ask("DELETE", "/subjects/counted-a")
    deleted = scrape(writer)
    assert [(value(after, name) or 0) - (value(deleted, name) or 0) for name in names] == [1, 2]


def test_the_writer_is_told_and_what_is_forwarded_to_it(pair: tuple[RegistryProcess, RegistryProcess]) -> None:
    writer, other = pair
    before = scrape(other)
    other.register("forwarded", PERSON)
    after = scrape(other)
    is_writer = [value(scrape(instance), "ottla_registry_is_writer") for instance in (writer, other)]
    assert is_writer == [1, 0]
    forwarded = "ottla_registry_forwarded_total"
    assert (value(before, forwarded), value(after, forwarded)) == (0, 1)
    assert value(scrape(writer), forwarded) == 0
    assert value(after, "ottla_registry_ready") == 1
    assert (value(after, "ottla_registry_elections_total") or 0) >= 1


def test_the_page_has_every_metric_of_the_table(pair: tuple[RegistryProcess, RegistryProcess]) -> None:
    families = {family.name: family for family in text_string_to_metric_families(pair[0].get("/metrics"))}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        assert labels <= set(metric.labels)


def test_the_page_needs_a_login_as_all_others(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ada=secret\n")
    with registry_process(shared_cluster.bootstrap, "--users", str(users)) as registry:
        assert registry.code("GET", "/metrics") == (401, 401)
        credentials = base64.b64encode(b"ada:secret").decode()
        request = urllib.request.Request(f"{registry.url}/metrics", headers={"Authorization": f"Basic {credentials}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert b'ottla_registry_errors_total{code="401"} 1' in answer.read()
