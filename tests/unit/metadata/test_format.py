"""New directories, known directories, and directories of another cluster."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.format import FormattedStorage, StorageNotFormattedError, format_storage
from ottla.metadata.versions import DEFAULT_FEATURE_LEVELS
from ottla.storage.errors import DirectoryRefused
from ottla.storage.meta_properties import read_meta_properties
from tests.support.files import MemoryFiles


def format_(files: MemoryFiles, *log_dirs: str, **fields: Any) -> FormattedStorage:
    defaults: dict[str, Any] = {
        "log_dirs": log_dirs,
        "metadata_log_dir": log_dirs[0],
        "node_id": 1,
        "random": Random(1),
        "now_ms": 5,
    }
    return format_storage(files, **{**defaults, **fields})


def test_a_new_cluster_gets_an_id_and_its_features() -> None:
    files = MemoryFiles()
    storage = format_(files, "/a", "/b")
    assert storage.is_new
    assert len(storage.cluster_id) == 22
    assert len(set(storage.directory_ids.values())) == 2
    meta = read_meta_properties(files, "/b")
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (storage.cluster_id, 1)
    levels = {record.name: record.feature_level for record in read_bootstrap(files, "/a")}  # type: ignore[attr-defined]
    assert levels == DEFAULT_FEATURE_LEVELS
    assert not files.exists("/b/bootstrap.checkpoint")


def test_formatting_again_changes_nothing() -> None:
    files = MemoryFiles()
    first = format_(files, "/a", "/b")
    again = format_(files, "/a", "/b", random=Random(2))
    assert again == first._replace(is_new=False)


@pytest.mark.parametrize("name", ["quorum-state", "00000000000000000000.log"])
def test_a_metadata_log_without_an_owner_is_not_formatted_over(name: str) -> None:
    files = MemoryFiles()
    format_(files, "/a", "/b")
    files.make_directories("/a/__cluster_metadata-0")
    # Files from before the first start may be written again.
    files.remove("/a/meta.properties")
    format_(files, "/a", "/b")
    files.write_atomically(f"/a/__cluster_metadata-0/{name}", b"")
    files.remove("/a/meta.properties")
    with pytest.raises(DirectoryRefused, match=r"/a has a metadata log but no meta\.properties"):
        format_(files, "/a", "/b")
    assert not files.exists("/a/meta.properties")


def test_a_directory_added_later_joins_the_cluster() -> None:
    files = MemoryFiles()
    first = format_(files, "/a")
    later = format_(files, "/a", "/b", random=Random(2))
    assert later.cluster_id == first.cluster_id
    assert later.directory_ids["/a"] == first.directory_ids["/a"]
    assert later.directory_ids["/b"] != first.directory_ids["/a"]


def test_a_given_cluster_id_is_taken_and_later_held_against() -> None:
    files = MemoryFiles()
    assert format_(files, "/a", cluster_id="bvqR-n8_QomauYpWSwjOMw").cluster_id == "bvqR-n8_QomauYpWSwjOMw"
    with pytest.raises(DirectoryRefused, match="belongs to cluster"):
        format_(files, "/a", cluster_id="another")


def test_directories_of_another_node_or_cluster_are_refused() -> None:
    files = MemoryFiles()
    format_(files, "/a")
    with pytest.raises(DirectoryRefused, match="node 1"):
        format_(files, "/a", node_id=2)
    format_(files, "/b", random=Random(9))
    with pytest.raises(DirectoryRefused, match="belongs to cluster"):
        format_(files, "/a", "/b")


def test_a_copied_directory_is_refused() -> None:
    files = MemoryFiles()
    format_(files, "/a")
    files.make_directories("/b")
    files.write_atomically("/b/meta.properties", files.read_bytes("/a/meta.properties"))
    with pytest.raises(DirectoryRefused, match="copy"):
        format_(files, "/a", "/b")


def test_a_node_that_may_not_format_says_so() -> None:
    with pytest.raises(StorageNotFormattedError, match="/a"):
        format_(MemoryFiles(), "/a", may_format=False)


def test_a_broken_directory_does_not_stop_the_others() -> None:
    files = MemoryFiles()
    format_(files, "/a", "/b")
    files.break_directory("/b", OSError(errno.EIO, "input/output error"))
    storage = format_(files, "/a", "/b")
    assert list(storage.directory_ids) == ["/a"]
    files.break_directory("/a", OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="input/output"):
        format_(files, "/a", "/b")


def test_nothing_is_written_to_a_directory_that_another_node_holds() -> None:
    files = MemoryFiles()
    files.make_directories("/a")
    lock = files.lock("/a/.lock")
    with pytest.raises(DirectoryRefused, match="another process"):
        format_(files, "/a")
    assert not files.exists("/a/meta.properties")
    assert not files.exists("/a/bootstrap.checkpoint")
    lock.release()
    assert format_(files, "/a").is_new
    # The lock of the directory is released.
    files.lock("/a/.lock").release()


def test_a_new_directory_that_cannot_be_written_does_not_stop_the_others() -> None:
    files = MemoryFiles()
    files.fail_next("write_atomically", OSError(errno.EROFS, "read-only"), path_contains="/b/")
    assert list(format_(files, "/a", "/b").directory_ids) == ["/a"]
