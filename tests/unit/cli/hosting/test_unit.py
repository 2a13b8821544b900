"""The unit file of systemd."""

from __future__ import annotations

import sys

from ottla.cli.hosting.unit import unit_file


def test_a_path_is_one_word_and_its_characters_are_not_expanded() -> None:
    (line,) = [line for line in unit_file("/etc/my $(a) 5%.properties", user=None).splitlines() if "ExecStart" in line]
    assert line == f'ExecStart="{sys.executable}" -m ottla.cli.main host --config "/etc/my $$(a) 5%%.properties"'


def test_a_unit_has_room_for_nodes_that_are_added_later() -> None:
    assert "\nTasksMax=infinity\n" in unit_file("/etc/host.properties", user="ottla")
