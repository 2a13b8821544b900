"""House rules as tests."""

__all__: list[str] = []
