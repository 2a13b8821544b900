"""Clickstream enrichment: page views with the profile of the user, and with what the user searched for shortly before.

A view of an unknown user is kept. Views, profiles and searches are JSON with the user's id as key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.streams.running import parse, run
from ottla.streams import (
    Consumed,
    Joined,
    JoinWindows,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Topology,
)

__all__ = ["build", "main"]


def build(views: str, profiles: str, searches: str, target: str) -> Topology:
    text, json = Serdes.string(), Serdes.json()
    consumed = Consumed.with_(text, json)
    builder = StreamsBuilder()
    users = builder.table(profiles, consumed)
    searched = builder.stream(searches, consumed)
    # A search counts for views up to one second after it.
    window = JoinWindows.of_time_difference_with_no_grace(1000).after(0)
    (
        builder.stream(views, consumed)
        .left_join(users, with_profile, Joined.with_(text, json, json))
        .left_join(searched, with_search, window, StreamJoined.with_(text, json, json))
        .to(target, Produced.with_(text, json))
    )
    return builder.build()


def with_profile(view: dict[str, Any], profile: dict[str, Any] | None) -> dict[str, Any]:
    return {**view, "name": profile["name"] if profile else None}


def with_search(view: dict[str, Any], search: dict[str, Any] | None) -> dict[str, Any]:
    return {**view, "search": search["terms"] if search else None}


def main(arguments: Sequence[str] | None = None) -> None:
    topics = {"views": "views", "profiles": "profiles", "searches": "searches", "output": "activity"}
    options = parse("Clickstream: views with users and searches", arguments, **topics)
    run(build(options.views, options.profiles, options.searches, options.output), options)


if __name__ == "__main__":
    main()
