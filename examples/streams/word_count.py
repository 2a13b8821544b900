"""Word count: the number of times that every word was seen, as decimal text.

python -m examples.streams.word_count --bootstrap-server localhost:9092 --input lines --output counts
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from examples.streams.running import parse, run
from ottla.streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, Topology

__all__ = ["build", "main"]


def build(source: str, target: str) -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    lines = builder.stream(source, Consumed.with_(text, text))
    words = lines.flat_map_values(words_of).filter(lambda _, word: word != "the")
    counts = words.group_by(lambda _, word: word, Grouped.with_(text, text)).count(Materialized.as_("CountStore"))
    counts.to_stream().map_values(str).to(target, Produced.with_(text, text))
    return builder.build()


def words_of(line: str | None) -> list[str]:
    return re.findall(r"\w+", (line or "").lower())


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Word count: words of a topic, counted", arguments, input="lines", output="counts")
    run(build(options.input, options.output), options)


if __name__ == "__main__":
    main()
