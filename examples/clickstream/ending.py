"""The results: Spark queries over the Parquet files, and a chart of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.table import Table

__all__ = [
    "Point",
    "clicks_by_region",
    "count_clicks",
    "draw",
    "places_to_look",
    "queries_to_paste",
    "register_clicks",
    "remove_former_files",
    "stage_points",
]

BY_REGION = """
    SELECT region,
           count(*)                                           AS clicks,
           count(DISTINCT user_id)                            AS users,
           round(100.0 * avg(int(page = '/checkout')), 1)     AS checkout_percent,
           round(100.0 * avg(int(status >= 400)), 1)          AS error_percent,
           round(percentile_approx(duration_ms, 0.95), 1)     AS p95_ms,
           round(100.0 * avg(int(plan = 'pro')), 1)           AS pro_percent
    FROM clicks GROUP BY region ORDER BY clicks DESC"""

# The generator counts from 0; the click of the warm-up is -1.
COUNTS = """
    SELECT count(*) AS clicks, count(DISTINCT click_id) AS different, coalesce(max(click_id) + 2, 0) AS made,
           count(name) AS enriched FROM clicks"""

# The arrival of each click at each stage: by the timestamps of both topics, and by the time of the file.
STAGES = """
    WITH arrivals AS (
        SELECT at, stack(3, 'clicks', received, 'clicks-enriched', _timestamp, 'Parquet', stored) AS (stage, arrived)
        FROM clicks WHERE click_id >= 0),
    latencies AS (
        SELECT stage, floor((unix_millis(arrived) - (SELECT unix_millis(min(at)) FROM arrivals)) / 1000) AS second,
               unix_millis(arrived) - unix_millis(at) AS latency_ms
        FROM arrivals)
    SELECT stage, second, count(*) AS records, percentile(latency_ms, array(0.5, 0.95)) AS latency_ms
    FROM latencies GROUP BY stage, second ORDER BY stage, second"""

TO_PASTE = """
The files are in {path}. To query them, paste this into {python}:

import ottla.spark

clicks = ottla.spark.session("look").read.parquet("{path}")
clicks.groupBy("region", "plan").count().orderBy("region", "plan").show()

or this into a Python with DuckDB (pip install duckdb):

import duckdb

duckdb.sql("SELECT region, plan, count(*) FROM read_parquet('{path}/*/*.parquet') GROUP BY ALL ORDER BY ALL").show()

What to look at next: {page}, a walk through logs, groups, replication and pipelines."""

TO_LOOK_AT = """
The node and Connect run on until Ctrl-C. In another terminal:

{ottla} top -b {bootstrap}
{ottla} consume clicks-enriched -b {bootstrap} --from-beginning --max-messages 3
{ottla} groups list -b {bootstrap}
curl {connect}connectors/files/status
curl -X PUT {connect}connectors/clicks/resume      # the stream continues, into the same files"""

COLOURS = {"clicks": "#2a9d8f", "clicks-enriched": "#e9a23b", "Parquet": "#264653"}
FAINT = "#e5e5e5"


class Point(NamedTuple):
    """One second of one stage."""

    stage: str
    second: int
    records: int
    median_ms: float
    slow_ms: float


def remove_former_files(path: Path) -> str | None:
    """Removes the files of a former run. Answers with a refusal if the directory has something else in it."""
    if not path.exists():
        return None
    others = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(("region=", "_", ".")))
    if others:
        return f"{path} has entries that are not of the demo, such as {others[0]}: remove them, or set --output"
    shutil.rmtree(path)
    return None


def queries_to_paste(path: Path) -> str:
    return TO_PASTE.format(path=path, python=_beside_python("python"), page="docs/learn/README.md")


def places_to_look(bootstrap: str, connect: str) -> str:
    return TO_LOOK_AT.format(bootstrap=bootstrap, connect=connect, ottla=_beside_python("ottla"))


def _beside_python(name: str) -> str:
    """A program of this environment, as short as the directory allows."""
    path = Path(sys.executable).with_name(name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def register_clicks(spark: SparkSession, path: Path) -> None:
    """The files as a view, with the modification time of each file."""
    frame = spark.read.parquet(str(path))
    frame.selectExpr("*", "_metadata.file_modification_time AS stored").createOrReplaceTempView("clicks")


def clicks_by_region(spark: SparkSession) -> Table:
    from rich.table import Table

    rows = spark.sql(BY_REGION).collect()
    table = Table(title="SELECT ... FROM the Parquet files GROUP BY region", title_justify="left")
    for number, name in enumerate(spark.sql(BY_REGION).columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
    return table


def count_clicks(spark: SparkSession) -> dict[str, int]:
    """Clicks in the files, distinct clicks, generated clicks, and clicks with a user."""
    counts: dict[str, int] = spark.sql(COUNTS).collect()[0].asDict()
    return counts


def stage_points(spark: SparkSession) -> list[Point]:
    return [Point(row.stage, row.second, row.records, *row.latency_ms) for row in spark.sql(STAGES).collect()]


def draw(points: Sequence[Point], paths: Sequence[Path], *, caption: str) -> None:
    """Throughput above, latency below, a line for each stage; the same picture to every path."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ottla", "font.size": 9})
    from matplotlib import pyplot

    picture, (above, below) = pyplot.subplots(2, 1, figsize=(10, 6.5), sharex=True)
    for stage, colour in COLOURS.items():
        own = [point for point in points if point.stage == stage]
        if not own:
            continue
        by_second = {point.second: point.records for point in own}
        all_seconds = range(min(by_second), max(by_second) + 1)
        # A batch arrives every second or less often: the mean of three seconds shows the flow, not single batches.
        smooth = [sum(by_second.get(second + near, 0) for near in (-1, 0, 1)) / 3 for second in all_seconds]
        above.plot(list(all_seconds), smooth, color=colour, linewidth=1.8, label=stage)
        seconds = [point.second for point in own]
        medians, slow = [point.median_ms / 1000 for point in own], [point.slow_ms / 1000 for point in own]
        below.plot(seconds, medians, color=colour, linewidth=1.8, label=stage)
        below.fill_between(seconds, medians, slow, color=colour, alpha=0.18, linewidth=0)
    above.set_title("A click from the generator through two topics to Parquet files", loc="left", fontweight="bold")
    _label(above, "records/s")
    _label(below, "seconds after the click\n(median, and up to 95 %)")
    below.set_xlabel(f"seconds since the first click.   {caption}")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        picture.savefig(path, bbox_inches="tight", dpi=110, metadata=metadata)
    pyplot.close(picture)


def _label(axes: Any, name: str) -> None:
    axes.set_ylabel(name)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
