"""The topologies of `examples/streams`, with the test driver."""

from __future__ import annotations

from examples.streams import (
    clickstream,
    fraud,
    late_readings,
    log_split,
    lookup,
    moving_average,
    reprocess,
    stock_stats,
    top_ten,
    word_count,
)
from ottla.streams import Serdes, TopologyTestDriver

TEXT, JSON, NUMBER = Serdes.string(), Serdes.json(), Serdes.double()


def test_word_count_leaves_out_the() -> None:
    driver = TopologyTestDriver(word_count.build("lines", "counts"))
    driver.create_input_topic("lines", TEXT, TEXT).pipe_input(None, "The cat, the other CAT")
    result = driver.create_output_topic("counts", TEXT, TEXT).read_key_values()
    assert result == [("cat", "1"), ("other", "1"), ("cat", "2")]


def test_stock_stats_are_by_ticker_and_window() -> None:
    driver = TopologyTestDriver(stock_stats.build("trades", "stats"))
    trades = driver.create_input_topic("trades", TEXT, JSON)
    trades.pipe_input("ACME", {"ask": 10.0, "size": 1}, 4000)
    trades.pipe_input("ACME", {"ask": 8.0, "size": 1}, 5500)
    result = driver.create_output_topic("stats", TEXT, JSON).read_key_values_to_map()
    assert result["ACME@0"] == {"trades": 1, "lowest": 10.0, "average": 10.0}
    assert result["ACME@1000"] == {"trades": 2, "lowest": 8.0, "average": 9.0}
    assert sorted(result) == [f"ACME@{start * 1000}" for start in range(6)]


def test_clicks_know_their_user_and_search() -> None:
    driver = TopologyTestDriver(clickstream.build("views", "profiles", "searches", "activity"))
    views, profiles, searches = (
        driver.create_input_topic(topic, TEXT, JSON) for topic in ("views", "profiles", "searches")
    )
    profiles.pipe_input("u1", {"name": "Ada"}, 0)
    searches.pipe_input("u1", {"terms": "shoes"}, 1000)
    views.pipe_input("u1", {"page": "red"}, 1500)
    views.pipe_input("u2", {"page": "blue"}, 1600)
    views.pipe_input("u1", {"page": "late"}, 9000)
    # Results without a partner come when their window is closed.
    views.pipe_input("u1", {"page": "last"}, 20000)
    assert driver.create_output_topic("activity", TEXT, JSON).read_key_values() == [
        ("u1", {"page": "red", "name": "Ada", "search": "shoes"}),
        ("u2", {"page": "blue", "name": None, "search": None}),
        ("u1", {"page": "late", "name": "Ada", "search": None}),
    ]


def test_the_top_ten_follow_every_sale() -> None:
    driver = TopologyTestDriver(top_ten.build("sales", "top"))
    sales = driver.create_input_topic("sales", TEXT, Serdes.integer())
    for number in range(12):
        sales.pipe_input(f"p{number:02}", number + 1)
    sales.pipe_input("p00", 100)
    last = driver.create_output_topic("top", TEXT, JSON).read_key_values()[-1]
    assert last == ("all", [["p00", 101], *[[f"p{number:02}", number + 1] for number in range(11, 2, -1)]])


def test_cards_in_two_countries_are_found() -> None:
    driver = TopologyTestDriver(fraud.build("payments", "alerts"))
    payments = driver.create_input_topic("payments", TEXT, JSON)
    for card, country, minute in (("1", "AT", 0), ("1", "AT", 5), ("1", "JP", 9), ("2", "AT", 9), ("1", "AT", 30)):
        payments.pipe_input(card, {"country": country}, minute * 60_000)
    result = driver.create_output_topic("alerts", TEXT, JSON).read_values()
    assert result == [{"card": "1", "countries": ["AT", "JP"]}]


def test_the_average_moves_with_every_value() -> None:
    driver = TopologyTestDriver(moving_average.build("readings", "averages"))
    readings = driver.create_input_topic("readings", TEXT, NUMBER)
    for time, value in ((10_000, 1.0), (15_000, 3.0), (21_000, 5.0)):
        readings.pipe_input("s", value, time)
    result = driver.create_output_topic("averages", TEXT, NUMBER).read_key_values_to_map()
    assert (result["s@10000"], result["s@15000"], result["s@21000"]) == (1.0, 2.0, 4.0)


def test_errors_and_other_lines_are_split() -> None:
    driver = TopologyTestDriver(log_split.build("logs", "errors", "others"))
    logs = driver.create_input_topic("logs", TEXT, JSON)
    logs.pipe_value_list([{"level": "error", "message": "disk full", "noise": 1}, {"message": "started"}, None])
    written = {name: driver.create_output_topic(name, TEXT, JSON).read_values() for name in ("errors", "others")}
    assert written == {
        "errors": [{"level": "ERROR", "message": "disk full"}],
        "others": [{"level": "INFO", "message": "started"}],
    }


def test_a_service_is_asked_once_in_five_minutes_for_a_key() -> None:
    asked_keys: list[str] = []

    def ask(key: str) -> str:
        asked_keys.append(key)
        return f"owner of {key}"

    driver = TopologyTestDriver(lookup.build("readings", "owned", ask))
    readings = driver.create_input_topic("readings", TEXT, JSON)
    for key in ("a", "b", "a"):
        readings.pipe_input(key, 1)
    driver.advance_wall_clock_time(lookup.FRESH_MS + 1)
    readings.pipe_input("a", 2)
    assert asked_keys == ["a", "b", "a"]
    results = driver.create_output_topic("owned", TEXT, JSON).read_key_values()
    assert results[-1] == ("a", {"value": 2, "owner": "owner of a"})
    assert len(results) == 4


def test_a_late_reading_changes_its_hour_until_that_is_final() -> None:
    driver = TopologyTestDriver(late_readings.build("sensors", "updates", "finals"))
    sensors = driver.create_input_topic("sensors", TEXT, NUMBER)
    hour = late_readings.HOUR_MS
    sensors.pipe_input("s", 10.0, 0)
    sensors.pipe_input("s", 30.0, 2 * hour)
    sensors.pipe_input("s", 20.0, hour - 1)
    finals = driver.create_output_topic("finals", TEXT, NUMBER)
    assert finals.is_empty()
    sensors.pipe_input("s", 50.0, 3 * hour)
    sensors.pipe_input("s", 99.0, 1)
    assert finals.read_key_values() == [("s@0", 15.0)]
    updates = driver.create_output_topic("updates", TEXT, NUMBER).read_key_values()
    assert updates == [("s@0", 10.0), ("s@2", 30.0), ("s@0", 15.0), ("s@3", 50.0)]
    assert sum(driver.dropped_records().values()) == 1


def test_a_new_version_has_its_own_results() -> None:
    totals = {}
    for version in (1, 2):
        driver = TopologyTestDriver(reprocess.build("payments", "totals", version))
        payments = driver.create_input_topic("payments", TEXT, JSON)
        payments.pipe_input("x", {"amount": 5})
        payments.pipe_input("x", {"amount": 7, "cancelled": True})
        output = driver.create_output_topic(f"totals-v{version}", TEXT, Serdes.integer())
        totals[version] = output.read_key_values_to_map()
    assert totals == {1: {"x": 12}, 2: {"x": 5}}
