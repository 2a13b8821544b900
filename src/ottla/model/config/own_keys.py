"""Keys that Apache Kafka's broker does not define: the keys of Ottla, and the keys of Kafka's authorizer.

They are separate from the tables of Kafka's keys, which tests compare with Kafka. Kafka ignores Ottla's keys, so one
properties file can serve both.
"""

from __future__ import annotations

from typing import Final

from ottla.model.config.columns import BOOLEAN, CLUSTER_WIDE, INT, LONG, LOW, MEDIUM, PASSWORD, READ_ONLY, STRING
from ottla.model.config.keys import HONOURED, ConfigKey
from ottla.model.config.validators import OneOf, at_least

__all__ = ["OWN_KEYS"]

# fmt: off
OWN_KEYS: Final = {
    key.name: key
    for key in (
        ConfigKey("ottla.metrics.listener", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Address (host:port, or https://host:port) of the HTTP endpoint for metrics and health; port 0 is a "
                  "free port, empty means no endpoint."),
        ConfigKey("ottla.client.metrics.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY, HONOURED,
                  "Whether clients may push their metrics (KIP-714), which the metrics endpoint then shows."),
        ConfigKey("ottla.tls.reload.interval.ms", LONG, 10_000, at_least(50), LOW, READ_ONLY, HONOURED,
                  "Time between two looks at the files of key stores; a file that has changed is read again."),
        ConfigKey("ottla.log.scrub.bytes.per.second", LONG, 0, at_least(0), LOW, CLUSTER_WIDE, HONOURED,
                  "Rate at which closed segments are read and checked in the background; 0 means that they are not."),
        ConfigKey("ottla.log.scrub.interval.ms", LONG, 86_400_000, at_least(1000), LOW, CLUSTER_WIDE, HONOURED,
                  "Shortest time between the beginnings of two rounds of such checks over all closed segments."),
        ConfigKey("ottla.audit.authorization", STRING, "off", OneOf("off", "denied", "all"), MEDIUM, READ_ONLY,
                  HONOURED,
                  "Decisions of the authorizer that are written to the audit: none, denials, or all of them."),
        ConfigKey("ottla.audit.authentication", STRING, "off", OneOf("off", "failed", "all"), MEDIUM, READ_ONLY,
                  HONOURED,
                  "Logins that are written to the audit: none, those that failed, or all of them."),
        ConfigKey("ottla.audit.dir", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Directory of the audit's files, one for each stream and node; empty means no files."),
        ConfigKey("ottla.audit.topic", BOOLEAN, False, None, MEDIUM, READ_ONLY, HONOURED,
                  "Whether the audit is written to the topic __audit."),
        ConfigKey("ottla.audit.file.bytes", LONG, 67_108_864, at_least(1024), LOW, READ_ONLY, HONOURED,
                  "Size at which a file of the audit is closed and the next one begins."),
        ConfigKey("ottla.audit.file.count", INT, 10, at_least(1), LOW, READ_ONLY, HONOURED,
                  "Files of each stream of the audit that are kept."),
        ConfigKey("ottla.audit.read.sample", INT, 100, at_least(1), LOW, READ_ONLY, HONOURED,
                  "One of so many allowed reads is written to the audit (ottla.audit.authorization=all)."),
        ConfigKey("ottla.groups.certificate.attribute", STRING, "", OneOf("", "CN", "O", "OU", "DC", "UID"),
                  MEDIUM, READ_ONLY, HONOURED,
                  "Part of a client certificate's subject that names the groups of the client, for example OU; empty "
                  "means none. ACLs and roles of Group:<name> hold for the members of a group."),
        ConfigKey("ottla.groups.claim", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Claim of OAUTHBEARER tokens that lists the groups of the client, for example groups; empty means "
                  "none."),
        ConfigKey("confluent.schema.registry.url", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Addresses of a Schema Registry, separated by commas, for topics that check schemas."),
        ConfigKey("confluent.basic.auth.user.info", PASSWORD, None, None, MEDIUM, READ_ONLY, HONOURED,
                  "The broker's login to the Schema Registry, USER:PASSWORD."),
        ConfigKey("super.users", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Principals that may do everything, separated by semicolons: User:alice;User:bob."),
        ConfigKey("allow.everyone.if.no.acl.found", BOOLEAN, False, None, MEDIUM, READ_ONLY, HONOURED,
                  "Whether a resource without any ACL is open to everyone."),
        ConfigKey("org.apache.kafka.sasl.oauthbearer.allowed.urls", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Addresses that sasl.oauthbearer.jwks.endpoint.url may have, separated by commas. (A system property "
                  "in Apache Kafka.)"),
        ConfigKey("org.apache.kafka.sasl.oauthbearer.allowed.files", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Files that sasl.oauthbearer.jwks.endpoint.url may name, separated by commas. (A system property in "
                  "Apache Kafka.)"),
        ConfigKey("ottla.log.format", STRING, "text", OneOf("text", "logfmt", "json"), LOW, READ_ONLY, HONOURED,
                  "Format of the node's own log: text, key=value pairs, or one JSON object per line."),
    )
}
# fmt: on
