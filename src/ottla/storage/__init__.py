"""One partition's log, and all of a node's logs, over the `Files` port; see README.md."""

__all__: list[str] = []
