from __future__ import annotations

from tests.support.schedule import group_of, rank_of


def test_tests_of_the_spark_session_are_one_group_and_the_first() -> None:
    files = ["tests/spark/test_sink.py", "tests/lake/test_raw.py", "tests/connect/test_chain.py"]
    assert {group_of(file) for file in files} == {"spark"}
    assert rank_of(files[0]) < rank_of("tests/java/test_tls.py") < rank_of("tests/unit/support/test_steps.py")


def test_other_files_are_groups_of_their_own() -> None:
    assert group_of("tests/docs/test_pages.py") == "tests/docs/test_pages.py"
