"""Charts of segments, assignments and in-sync replicas, as text and as SVG."""

from __future__ import annotations

from ottla.cli.drawing.chart import Cell, Chart, Row, Tone, as_svg, as_text

__all__ = ["Cell", "Chart", "Row", "Tone", "as_svg", "as_text"]
