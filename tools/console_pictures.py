"""Takes the pictures of the console in docs/console, from a cluster of three nodes under load.

    python tools/console_pictures.py [DIRECTORY]

It needs the packages of the browser tests (`requirements/browser.in`) and the operating system's Chromium.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import ottla.testing

TARGET = Path(__file__).resolve().parents[1] / "docs" / "console"
TOPICS = {
    "shop.orders": 6,
    "shop.clicks": 12,
    "shop.payments": 3,
    "shop.returns": 3,
    "search.queries": 6,
    "search.index": 6,
    "mail.outbox": 3,
    "stock.levels": 6,
    "stock.moves": 6,
}
# Topic -> records a second.
RATES = {"shop.clicks": 300, "search.queries": 140, "shop.orders": 90, "stock.moves": 40, "mail.outbox": 10}
# Group -> its topic, and how many records a second it reads.
GROUPS = {
    "billing": ("shop.orders", 86),
    "recommendations": ("shop.clicks", 290),
    "search-statistics": ("search.queries", 5000),
    "mailer": ("mail.outbox", 5000),
}
SETTINGS = {
    "ottla.metrics.listener": "127.0.0.1:0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}
WARM_UP_SECONDS = 60
COLOURS = 128


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.mkdir(parents=True, exist_ok=True)
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(name, count, 3) for name, count in TOPICS.items()]).values():
            future.result(60)
        with under_load(cluster.bootstrap), console(cluster) as url, sync_playwright() as driver:
            executable = shutil.which("chromium")
            browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
            take_all(Camera(browser, url, target), cluster)
            browser.close()


class Camera:
    def __init__(self, browser: Browser, url: str, target: Path) -> None:
        self._browser = browser
        self._url = url
        self._target = target

    def open(self, path: str, *, width: int = 1280, height: int = 820, scheme: Any = "light") -> Page:
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(self._url + path, wait_until="commit")
        page.wait_for_selector("main h1")
        page.wait_for_function("() => !document.querySelector('main .skeleton, main .waiting')")
        return page

    def take(self, name: str, page: Page) -> None:
        """A picture with few colours is a third as large, and looks the same."""
        page.wait_for_timeout(1000)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        few = picture.quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(self._target / f"{name}.png", optimize=True)


def take_all(camera: Camera, cluster: ottla.testing.Cluster) -> None:
    overview = camera.open("/")
    group = camera.open("/groups/billing")
    overview.wait_for_timeout(WARM_UP_SECONDS * 1000)
    camera.take("overview", overview)
    camera.take("group", group)
    camera.take("topics", camera.open("/topics", scheme="dark"))
    camera.take("narrow", camera.open("/", width=390, height=800, scheme="dark"))
    records = camera.open("/topics/shop.orders?tab=messages")
    records.click("o-messages tr.opens >> nth=3")
    camera.take("records", records)
    create = camera.open("/topics?create=1")
    create.fill("#field-name", "shop.refunds")
    create.fill("#field-partitions", "6")
    create.wait_for_selector(".plan li")
    camera.take("create", create)
    cluster.node(3).kill()
    overview.wait_for_selector("text=Broker 3 is not running")
    overview.wait_for_timeout(15_000)
    camera.take("lost-node", overview)


@contextlib.contextmanager
def console(cluster: ottla.testing.Cluster) -> Iterator[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "console", "-b", cluster.bootstrap, "--port", "0"]
    for node in cluster.nodes:
        command += ["--metrics", str(node.metrics_url)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def under_load(bootstrap: str) -> Iterator[None]:
    is_over = threading.Event()
    threads = [threading.Thread(target=write, args=(bootstrap, is_over))]
    threads += [threading.Thread(target=read, args=(bootstrap, group, is_over)) for group in GROUPS]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def write(bootstrap: str, is_over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    dice = random.Random(7)
    number = 0
    while not is_over.wait(0.1):
        for topic, rate in RATES.items():
            for _ in range(int(rate * dice.uniform(0.07, 0.13))):
                number += 1
                producer.produce(topic, key=f"customer-{dice.randrange(900)}", value=order(number, dice))
        producer.poll(0)
    producer.flush(10)


def order(number: int, dice: random.Random) -> str:
    item = {"sku": f"A-{dice.randrange(100, 999)}", "count": dice.randrange(1, 5)}
    head = {"order": number, "customer": {"id": dice.randrange(900), "country": dice.choice(["DE", "FR", "CZ"])}}
    return json.dumps({**head, "items": [item], "total": round(dice.uniform(5, 400), 2)})


def read(bootstrap: str, group: str, is_over: threading.Event) -> None:
    topic, rate = GROUPS[group]
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "client.id": f"{group}-1", "auto.commit.interval.ms": 500})
    consumer.subscribe([topic])
    while not is_over.is_set():
        begin = time.monotonic()
        record_count = len(consumer.consume(max(rate // 5, 1), timeout=0.2))
        is_over.wait(max(0.0, record_count / rate - (time.monotonic() - begin)))
    consumer.close()


if __name__ == "__main__":
    main()
