"""A Connect worker as a process that a test can kill: it reads properties from a JSON file and writes its address.

python connect_worker.py properties.json address.txt
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.worker import Worker


async def main() -> None:
    properties = json.loads(Path(sys.argv[1]).read_text())
    async with Worker(WorkerConfig(properties, distributed=True)) as worker:
        Path(sys.argv[2]).write_text(worker.url)
        await asyncio.Event().wait()


logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
asyncio.run(main())
