"""A failover after the positions of the flow have expired (`offsets.retention.minutes`)."""

from __future__ import annotations

import asyncio

from ottla.client.admin import AdminClient
from ottla.mirror.switching.failback import Failback
from ottla.mirror.switching.failover import Failover
from ottla.testing.clusters import cluster
from tests.mirror.flows import create, has_no_lag, mirroring, produce, read_all, until
from tests.mirror.test_failover import settings_of, switch


def test_what_was_written_at_the_target_comes_back() -> None:
    async def work() -> None:
        with cluster() as source, cluster() as target:
            settings = settings_of((source, target), "old")
            (flow,) = settings.flows
            await create(source, "old", partitions=1)
            await produce(source.bootstrap, "old", range(20))
            async with mirroring(source, target, topics="old"):
                await read_all(target.bootstrap, "a.old", 20)
                await until(lambda: has_no_lag(settings))
            async with AdminClient({"bootstrap.servers": target.bootstrap}) as admin:
                # As when the source was lost for a week.
                assert (await admin.groups.delete([flow.group_id]))[flow.group_id] is None
            report = await switch(Failover, flow, killed=False)
            assert report.not_copied == []
            await produce(target.bootstrap, "a.old", range(20, 30))
            await switch(Failback, flow, killed=False)
            async with asyncio.timeout(20):
                returned = await read_all(source.bootstrap, "old", 30)
            assert [record[3] for record in returned] == [b"v%d" % number for number in range(30)]

    asyncio.run(asyncio.wait_for(work(), 120))
