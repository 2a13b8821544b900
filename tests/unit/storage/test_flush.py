"""When a log is made durable, and what waits for it."""

from __future__ import annotations

import errno

from ottla.model.errors import KafkaError
from ottla.storage.errors import LogDirectoryOffline
from tests.unit.storage.helpers import DIRECTORY, LogBench, values_of

LOG = f"{DIRECTORY}/00000000000000000000.log"


def test_an_append_is_not_synced_by_itself(bench: LogBench) -> None:
    result = bench.append(b"a")
    assert result.flushed is None
    assert bench.files.nodes[LOG].synced == b""
    assert bench.log.recovery_point == 0


def test_flush_moves_the_recovery_point_when_it_is_done(bench: LogBench) -> None:
    bench.append(b"a")
    bench.world.workers.immediate = False
    done = bench.log.flush()
    assert not done.done
    assert bench.log.recovery_point == 0
    bench.append(b"b")
    bench.world.workers.run_all()
    assert done.done
    # What came after the flush began is not covered by it.
    assert bench.log.recovery_point == 1


def test_those_who_ask_during_a_flush_share_the_next(bench: LogBench) -> None:
    bench.append(b"a")
    bench.world.workers.immediate = False
    first = bench.log.flush()
    waiting = []
    for number in range(20):
        bench.append(b"%d" % number)
        waiting.append(bench.log.flush())
    assert len({id(deferred) for deferred in waiting}) == 1
    bench.world.workers.run_one()
    assert first.done
    assert not waiting[0].done
    bench.world.workers.run_one()
    assert waiting[0].done
    assert bench.log.recovery_point == 21
    assert not bench.world.workers.tasks


def test_flush_messages_makes_every_so_many_records_durable() -> None:
    bench = LogBench(flush_messages=3)
    assert bench.append(b"a").flushed is None
    assert bench.append(b"b").flushed is None
    flushed = bench.append(b"c").flushed
    assert flushed is not None
    assert flushed.done
    assert bench.log.recovery_point == 3
    assert bench.files.nodes[LOG].synced == bytes(bench.files.nodes[LOG].data)


def test_a_failed_fsync_takes_the_log_out_of_service(bench: LogBench) -> None:
    bench.append(b"a")
    bench.files.fail_next("sync", OSError(errno.ENOSPC, "full"))
    done = bench.log.flush()
    assert isinstance(done.error, LogDirectoryOffline)
    assert [error.errno for error in bench.failures] == [errno.ENOSPC]
    assert bench.log.recovery_point == 0
    assert isinstance(bench.log.flush().error, LogDirectoryOffline)


def test_a_flush_does_not_move_the_recovery_point_past_a_truncation(bench: LogBench) -> None:
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    bench.world.workers.immediate = False
    bench.log.flush()
    bench.log.truncate_to(1)
    bench.append(b"d")
    bench.append(b"e")
    bench.world.workers.run_all()
    assert bench.log.recovery_point == 1
    assert values_of(bench.log) == [b"a", b"d", b"e"]


def test_a_flush_that_waits_for_its_round_does_not_move_it_past_a_truncation_either(bench: LogBench) -> None:
    bench.append(b"a")
    bench.world.workers.immediate = False
    bench.log.flush()
    bench.append(b"b")
    waiting = bench.log.flush()
    bench.log.truncate_to(1)
    bench.world.workers.run_all()
    assert waiting.done
    assert bench.log.recovery_point == 1
    bench.log.invariants()


def test_an_input_output_error_on_append_fails_the_log_and_a_full_disk_does_not(bench: LogBench) -> None:
    import pytest

    from ottla.storage.errors import DiskFull

    bench.append(b"a")
    for code in (errno.ENOSPC, errno.EDQUOT):
        bench.files.fail_next("append", OSError(code, "no room"))
        with pytest.raises(DiskFull):
            bench.append(b"b")
    assert bench.failures == []
    bench.append(b"c")
    assert values_of(bench.log) == [b"a", b"c"]
    bench.files.fail_next("append", OSError(errno.EIO, "broken"))
    with pytest.raises(LogDirectoryOffline):
        bench.append(b"d")
    assert [error.errno for error in bench.failures] == [errno.EIO]
    with pytest.raises(LogDirectoryOffline):
        bench.append(b"e")


def test_a_full_disk_does_not_disturb_producer_state() -> None:
    import pytest

    from ottla.storage.errors import DiskFull

    bench = LogBench()
    fields = {"producer_id": 7, "producer_epoch": 0}
    bench.append(b"a", sequence=0, **fields)
    bench.files.fail_next("append", OSError(errno.ENOSPC, "no room"))
    with pytest.raises(DiskFull):
        bench.append(b"b", sequence=1, **fields)
    # Later batches get the same error, with or without free space now: the producer did not cause the gap.
    with pytest.raises(DiskFull):
        bench.append(b"c", sequence=2, **fields)
    # The producer tries the same batch again.
    result = bench.append(b"b", sequence=1, **fields)
    assert (result.first_offset, result.duplicate) == (1, False)
    # Afterwards a gap is an error of the producer.
    with pytest.raises(KafkaError, match="sequence"):
        bench.append(b"d", sequence=3, **fields)
    assert bench.append(b"c", sequence=2, **fields).first_offset == 2


def test_index_entries_wait_for_room() -> None:
    bench = LogBench(index_interval_bytes=0)
    for number in range(200):
        if number in (127, 128):
            bench.files.fail_next("append", OSError(errno.ENOSPC, "no room"), path_contains=".index")
        bench.append(b"%d" % number)
    assert bench.log.segments.active.offset_index.entry_count == 199
    bench.restart(clean=True)
    assert len(values_of(bench.log)) == 200


def test_what_a_failed_write_left_behind_is_not_written_after() -> None:
    import pytest

    from ottla.storage.errors import DiskFull

    bench = LogBench()
    bench.append(b"a")
    # The write fails half-way, and so does cutting it off again.
    bench.files.nodes[LOG].data += b"half a batch"
    bench.files.fail_next("append", OSError(errno.ENOSPC, "no room"))
    with pytest.raises(DiskFull):
        bench.append(b"b")
    bench.log.segments.active.release()
    bench.append(b"c")
    assert values_of(bench.log) == [b"a", b"c"]
    bench.restart(clean=False, recovery_point=0)
    assert values_of(bench.log) == [b"a", b"c"]


def test_an_index_without_a_descriptor_does_not_undo_the_append() -> None:
    bench = LogBench(index_interval_bytes=0)
    for number in range(200):
        if number == 128:
            for _ in range(2):
                bench.files.fail_next("open", OSError(errno.EMFILE, "too many"), path_contains=".index")
        bench.append(b"%d" % number)
    assert bench.failures == []
    assert len(values_of(bench.log)) == 200
