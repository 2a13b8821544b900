"""The examples of every help page, by the words of the command.

A test parses all of them and demands at least one for every command and verb.
"""

from __future__ import annotations

__all__ = ["EXAMPLES", "epilog"]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": (
        "ottla up",
        "ottla up --nodes 3 --port 0 --data /tmp/cluster",
        "ottla up --set log.retention.hours=24 --set num.partitions=6",
        "ottla up --host 0.0.0.0 --advertise kafka.example.com --insecure",
    ),
    "node": ("ottla node --config node.properties",),
    "keys": ("ottla keys create orders", "ottla keys list", "ottla keys rotate orders"),
    "keys list": ("ottla keys list --file /etc/ottla/keys.json",),
    "keys create": ("ottla keys create orders --file /etc/ottla/keys.json",),
    "keys rotate": ("ottla keys rotate orders",),
    "keys retire": ("ottla keys retire orders 1 --yes",),
    "keys re-encrypt": ("ottla keys re-encrypt orders orders-2 --command-config encryption.properties",),
    "connect": (
        "ottla connect distributed worker.properties",
        "ottla connect create lines.json",
        "ottla connect status",
    ),
    "connect list": ("ottla connect list", "ottla connect list --url http://connect:8083 --json"),
    "connect status": ("ottla connect status", "ottla connect status orders-sink"),
    "connect create": (
        "ottla connect create orders-sink.json",
        "ottla connect create orders-sink.properties --replace",
        "ottla connect create --name lines --set connector.class=FileStreamSource \\",
        "    --set file=/var/log/syslog --set topic=syslog --dry-run",
    ),
    "connect config": ("ottla connect config orders-sink --json > orders-sink.json",),
    "connect pause": ("ottla connect pause orders-sink",),
    "connect resume": ("ottla connect resume orders-sink",),
    "connect stop": ("ottla connect stop orders-sink",),
    "connect restart": ("ottla connect restart orders-sink", "ottla connect restart orders-sink --task 2"),
    "connect delete": ("ottla connect delete orders-sink --yes",),
    "connect logs": (
        "ottla connect logs",
        "ottla connect logs orders-sink --trace",
        "ottla connect logs --level ottla.connect=DEBUG",
    ),
    "connect standalone": ("ottla connect standalone worker.properties lines.properties",),
    "connect distributed": (
        "ottla connect distributed worker.properties",
        "ottla connect distributed worker.properties --override group.id=two",
    ),
    "connect new": ("ottla connect new weather --kind source",),
    "connect plugins": ("ottla connect plugins", "ottla connect plugins --plugin-path weather/plugins --json"),
    "topics": ("ottla topics list", "ottla topics create orders --partitions 6", "ottla topics describe orders"),
    "topics list": ("ottla topics list", "ottla topics list 'order.*' --exclude-internal"),
    "topics create": (
        "ottla topics create orders --partitions 6 --replication-factor 3",
        "ottla topics create users --config cleanup.policy=compact --if-not-exists",
    ),
    "topics delete": ("ottla topics delete orders", "ottla topics delete 'test-.*' --yes"),
    "topics alter": ("ottla topics alter orders --partitions 12",),
    "topics describe": (
        "ottla topics describe orders",
        "ottla topics describe --under-replicated-partitions --json",
    ),
    "produce": (
        "echo hello | ottla produce greetings",
        "ottla produce orders --key-separator : < orders.txt",
        "ottla produce images cat.png dog.png --header kind=picture",
        "ottla consume orders --exit --json | ottla produce copy --input json",
        "seq 1000 | ottla produce ticks --rate 10",
    ),
    "consume": (
        "ottla consume orders --from-beginning",
        "ottla consume orders --last 10",
        "ottla consume orders --from 30m --exit --json",
        "ottla consume orders --from 2026-05-31T12:00 --to 2026-05-31T13:00",
        "ottla consume orders --filter 'json.amount > 100 and key.startswith(\"a\")'",
        r"ottla consume orders returns -F --format '%t-%p@%o %k: %s\n'",
        "ottla consume orders --group readers",
    ),
    "get-offsets": ("ottla get-offsets orders", "ottla get-offsets orders --time 2026-05-31T12:00:00.000"),
    "delete-records": ("ottla delete-records orders:0:1500 orders:1:900",),
    "groups": ("ottla groups list", "ottla groups describe readers"),
    "groups list": ("ottla groups list", "ottla groups list --state Empty --json"),
    "groups describe": ("ottla groups describe readers", "ottla groups describe --all-groups --members"),
    "groups delete": ("ottla groups delete readers --yes",),
    "groups reset-offsets": (
        "ottla groups reset-offsets readers --topic orders --to-earliest --dry-run",
        "ottla groups reset-offsets readers --all-topics --by-duration PT1H --execute",
    ),
    "groups delete-offsets": ("ottla groups delete-offsets --group readers --topic orders",),
    "transactions": ("ottla transactions list", "ottla transactions find-hanging --broker-id 1"),
    "transactions list": ("ottla transactions list", "ottla transactions list --duration-filter 60000"),
    "transactions describe": ("ottla transactions describe --transactional-id billing",),
    "transactions describe-producers": ("ottla transactions describe-producers --topic orders --partition 0",),
    "transactions find-hanging": ("ottla transactions find-hanging --broker-id 1",),
    "transactions abort": ("ottla transactions abort --topic orders --partition 0 --start-offset 4711",),
    "transactions forceTerminateTransaction": (
        "ottla transactions forceTerminateTransaction --transactionalId billing",
    ),
    "producers": ("ottla producers orders", "ottla producers orders:0,1 --json"),
    "configs": (
        "ottla configs describe --topic orders",
        "ottla configs alter --topic orders --set retention.ms=3600000",
    ),
    "configs describe": (
        "ottla configs describe --topic orders",
        "ottla configs describe --broker 1 --all --json",
    ),
    "configs alter": (
        "ottla configs alter --topic orders --set retention.ms=3600000",
        "ottla configs alter --broker-defaults --unset log.cleaner.threads",
        "ottla configs alter --user alice --set 'SCRAM-SHA-512=[password=secret]'",
    ),
    "reassign": (
        "ottla reassign generate --topic orders --broker-list 1,2,3 > plan.json",
        "ottla reassign execute --reassignment-json-file plan.json",
    ),
    "reassign generate": ("ottla reassign generate --topic orders --broker-list 1,2,3",),
    "reassign execute": ("ottla reassign execute --reassignment-json-file plan.json --throttle 5000000",),
    "reassign verify": ("ottla reassign verify --reassignment-json-file plan.json",),
    "reassign cancel": ("ottla reassign cancel --reassignment-json-file plan.json",),
    "reassign list": ("ottla reassign list",),
    "elect-leaders": (
        "ottla elect-leaders --election-type preferred --all-topic-partitions",
        "ottla elect-leaders --election-type unclean orders:0",
    ),
    "log-dirs": ("ottla log-dirs describe",),
    "log-dirs describe": ("ottla log-dirs describe", "ottla log-dirs describe --broker-list 1 --topic-list orders"),
    "verify-replicas": ("ottla verify-replicas orders",),
    "cluster": ("ottla cluster describe", "ottla cluster cluster-id"),
    "cluster cluster-id": ("ottla cluster cluster-id",),
    "cluster describe": ("ottla cluster describe", "ottla cluster describe --include-fenced-brokers"),
    "cluster list-endpoints": ("ottla cluster list-endpoints --bootstrap-controller localhost:9093",),
    "cluster unregister": ("ottla cluster unregister --id 4",),
    "quorum": ("ottla quorum describe --status", "ottla quorum describe --replication --human-readable"),
    "quorum describe": ("ottla quorum describe --status", "ottla quorum describe --replication --human-readable"),
    "quorum add-controller": ("ottla quorum add-controller --config controller.properties",),
    "quorum remove-controller": (
        "ottla quorum remove-controller --controller-id 3 \\",
        "    --controller-directory-id MvDxzVmcRsaTz33bUuRU6A",
    ),
    "acls": ("ottla acls list", "ottla acls add --allow-principal User:alice --producer --topic orders"),
    "acls list": ("ottla acls list --topic orders --resource-pattern-type match",),
    "acls add": (
        "ottla acls add --allow-principal User:alice --operation Read --topic orders",
        "ottla acls add --allow-principal User:b --consumer --topic t --group g",
    ),
    "acls remove": ("ottla acls remove --topic orders --yes",),
    "features": ("ottla features describe", "ottla features upgrade --release-version 4.3"),
    "features describe": ("ottla features describe",),
    "features upgrade": ("ottla features upgrade --release-version 4.3 --dry-run",),
    "features downgrade": ("ottla features downgrade --feature metadata.version=25",),
    "features disable": ("ottla features disable --feature share.version",),
    "features version-mapping": ("ottla features version-mapping --release-version 4.3",),
    "features feature-dependencies": ("ottla features feature-dependencies --feature metadata.version=25",),
    "api-versions": ("ottla api-versions", "ottla api-versions Produce Fetch --json"),
    "doctor": ("ottla doctor", "ottla doctor --config node.properties"),
    "top": ("ottla top", "ottla top --interval 5 --rows 20"),
    "storage": ("ottla storage random-uuid", "ottla storage info --config node.properties"),
    "storage random-uuid": ("ottla storage random-uuid",),
    "storage info": ("ottla storage info --config node.properties",),
    "storage format": (
        "ottla storage format --standalone --config node.properties \\",
        "    --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
    ),
    "dump-log": (
        "ottla dump-log data/orders-0/00000000000000000000.log --print-data-log",
        "ottla dump-log data/orders-0/00000000000000000000.index",
    ),
    "draw": ("ottla draw assignment readers", "ottla draw segments data/node-1/data/orders-0"),
    "draw segments": (
        "ottla draw segments data/node-1/data/orders-0",
        "ottla draw segments data/node-1/data/orders-0 --svg orders.svg",
    ),
    "draw assignment": ("ottla draw assignment readers",),
    "draw isr": ("ottla draw isr orders --partition 2 --data data/node-1/data --last 20",),
    "perf": ("ottla perf produce bench --num-records 1000000", "ottla perf consume bench --num-records 1000000"),
    "perf produce": (
        "ottla perf produce bench --num-records 1000000 --record-size 100",
        "ottla perf produce bench --num-records 1000 --throughput 100 --json",
    ),
    "perf consume": ("ottla perf consume bench --num-records 1000000",),
    "perf end-to-end": ("ottla perf end-to-end bench --num-records 1000",),
    "verifiable-producer": ("ottla verifiable-producer --topic checked --max-messages 1000",),
    "verifiable-consumer": ("ottla verifiable-consumer --topic checked --group-id checkers",),
    "profile": (
        "ottla profile create prod -b broker:9092 --command-config client.properties",
        "ottla profile use prod",
    ),
    "profile create": (
        "ottla profile create local",
        "ottla profile create prod -b broker:9092 --connect http://connect:8083",
        "ottla profile create secure --command-config client.properties",
    ),
    "profile use": ("ottla profile use prod",),
    "profile list": ("ottla profile list", "ottla profile list --json"),
    "profile show": ("ottla profile show", "ottla profile show prod"),
    "profile delete": ("ottla profile delete prod",),
    "completion": ('eval "$(ottla completion bash)"', "ottla completion fish > ottla.fish"),
}


def epilog(words: str) -> str | None:
    """The end of a help page. `\\b` keeps click from joining the lines."""
    lines = EXAMPLES.get(words)
    return None if lines is None else "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
