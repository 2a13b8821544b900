"""Regular expressions over topic names: the syntax of RE2, in linear time."""

from __future__ import annotations

import re
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.consumer.pattern import InvalidPattern, TopicPattern, any_name
from tests.support.steps import steps_of

NAMES = ["", "a", "ab", "orders", "orders.eu", "orders-2", "Orders", "a_b", "aab", "x1", "10"]


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "orders.*",
        "orders[.-].+",
        "(orders|a)",
        "a*b",
        "a+?b",
        "a{2}b?",
        "a{0,1}",
        "[^a]*",
        "[a-c]+",
        r"\w+\.\w+",
        r"\d{1,2}",
        "(?:a|x)[0-9]?b?",
        "(?i)orders",
        "(?i:o)rders",
        "^a.*$",
        r"\Aa",
        r"orders\b.*",
        r"a\Bb",
        "",
        "a||b",
        "[]a]+",
        "(?P<n>a)b",
        "a{,2}",
        "[a-]b",
    ],
)
def test_matches_as_python_does_where_both_know_the_syntax(text: str) -> None:
    ours, theirs = TopicPattern(text), re.compile(text.replace("a{,2}", r"a\{,2\}"), re.ASCII)
    assert [name for name in NAMES if ours.matches(name)] == [name for name in NAMES if theirs.fullmatch(name)]


@pytest.mark.parametrize(
    ("text", "name"),
    [(r"\Qa.b\E+", "a.bb"), ("[[:alpha:]]+", "abc"), ("(?<n>a)", "a"), (r"a\z", "a"), (r"\x61", "a"), (r"\x{61}", "a")],
)
def test_knows_what_only_re2_knows(text: str, name: str) -> None:
    if text.startswith(r"\Q"):
        assert TopicPattern(r"\Qa.b\E").matches("a.b")
        assert not TopicPattern(r"\Qa.b\E").matches("axb")
    else:
        assert TopicPattern(text).matches(name)


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "[",
        "[b-a]",
        "*a",
        "a**",
        "a{2,1}",
        "a{1001}",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        r"(a)\1",
        "\\",
        r"\y",
        "[[:nonsense:]]",
        "(?P<>a)",
        "(?z)a",
        "((((a{1000}){1000}){1000}){1000})",
        "(" * 200 + ")" * 200,
        r"\x{zz}",
        "((){1000}){1000}",
        "a" * 1_000_000,
        "[" + "a-z" * 1_000_000 + "]",
    ],
    ids=lambda text: text[:40],
)
def test_refuses_what_is_no_expression_or_cannot_be_linear(text: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(text)


def test_time_is_linear_where_backtracking_would_be_exponential() -> None:
    def steps_for(length: int) -> int:
        pattern = TopicPattern("(a+)+(a|aa)+(a*)*b")
        return steps_of(lambda: pattern.matches("a" * length))

    shortest = steps_for(6)
    # Backtracking would double the work with every character; the shortest texts already show that.
    for length in (12, 24, 249):
        assert steps_for(length) - shortest < 50 * (length - 6)
    assert not TopicPattern("(a+)+(a|aa)+(a*)*b").matches("a" * 249)


@pytest.mark.parametrize("text", ["((){1000}){1000}" * 10, "(a?){1000}" * 400, "(" * 90 + "a{30}" + "){30}" * 90])
def test_the_work_to_refuse_an_expression_is_bounded(text: str) -> None:
    def refused() -> None:
        with pytest.raises(InvalidPattern):
            TopicPattern(text)

    assert steps_of(refused) < 5_000_000


def test_the_cache_of_a_dear_expression_is_bounded() -> None:
    pattern = TopicPattern("(.?){1000}[^a]")
    tracemalloc.start()
    try:
        assert not pattern.matches("a" * 249)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_a_match_pauses_between_characters() -> None:
    pattern = TopicPattern("(.?){1000}[^a]")
    matching = pattern.matching("a" * 249 + "b")
    works = [pattern.work for _ in matching]
    works.append(pattern.work)
    assert len(works) > 249
    assert max(after - before for before, after in pairwise(works)) <= pattern.size


def test_names_of_any_length_have_a_bound_of_work() -> None:
    matches = any_name("(.?){1000}[^a]")
    with pytest.raises(InvalidPattern, match="too much time"):
        matches("a" * 30_000)
    with pytest.raises(InvalidPattern, match="too many different characters"):
        any_name("".join(map(chr, range(1000, 1200))))


@given(text=st.text("ab.*+?|()[]{}^$\\-09,:=<Pi!", max_size=12), name=st.text("ab.-09_", max_size=8))
@settings(max_examples=300, deadline=None)
def test_any_text_is_an_expression_or_is_refused(text: str, name: str) -> None:
    try:
        pattern = TopicPattern(text)
    except InvalidPattern:
        return
    assert pattern.matches(name) in (True, False)


@given(
    text=st.recursive(
        st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "-"]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=6,
    ),
    name=st.text("ab-1", max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_agrees_with_python_on_random_expressions(text: str, name: str) -> None:
    assert TopicPattern(text).matches(name) is (re.fullmatch(text, name) is not None)


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("my app:.*", "my app:1", True),
        (r"my\sapp", "my app", True),
        (r"my\Sapp", "my app", False),
        ("[[:punct:]]+", ":;!", True),
        ("[[:space:]]", "a", False),
        (".", "ü", True),
        ("ü.", "üß", True),
        ("[^a]", "ß", True),
        ("ü", "ß", False),
        ("[äöü]+", "üö", True),
        (".", "\n", False),
        ("[^a]", "\n", True),
        (r"\W", "ß", True),
        (r"\w", "ß", False),
    ],
)
def test_names_of_whatever_characters(text: str, name: str, matches: bool) -> None:
    assert any_name(text)(name) is matches
