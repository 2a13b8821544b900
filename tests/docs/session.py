"""The Python interpreter of a page: runs its blocks one after another, as if they were pasted.

Reads a JSON object for each block from the file descriptor in its first argument and answers with a line on the second.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import traceback
import types


def main() -> None:
    blocks = os.fdopen(int(sys.argv[1]), "r")
    answers = os.fdopen(int(sys.argv[2]), "w", buffering=1)
    # A pasted program sees its own directory, not that of this file.
    sys.path[0] = ""
    # Objects that a program pickles are looked up in `__main__`.
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    for line in blocks:
        block = json.loads(line)
        name = f"<{block['name']}>"
        linecache.cache[name] = (len(block["text"]), None, block["text"].splitlines(keepends=True), name)
        status = "ok"
        try:
            exec(compile(block["text"], name, "exec"), module.__dict__)
        except BaseException:  # noqa: BLE001 - an interpreter shows every exception and continues
            traceback.print_exc()
            status = "failed"
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(f"{status}\n")


if __name__ == "__main__":
    main()
