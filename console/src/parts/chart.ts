/** A line chart over time, drawn by uPlot in the colours of the theme. */

import { html, type PropertyValues, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import uPlot from "uplot";
import { Part } from "../core/part.js";
import { colour, onThemeChange } from "../core/theme.js";

/** Distances of the lines: whole numbers, because figures are counts; powers of two for bytes. */
const WHOLE_STEPS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const SPAN_SECONDS_MIN = 30;

export interface Series {
  label: string;
  /** A colour token, such as "--series-1". */
  colour: string;
  values: (number | null)[];
}

@customElement("o-chart")
export class Chart extends Part {
  /** Seconds since 1970. */
  @property({ attribute: false }) times: number[] = [];
  @property({ attribute: false }) series: Series[] = [];
  @property({ attribute: false }) format: (value: number | null) => string = String;
  @property({ type: Number }) height = 180;
  @property({ type: Boolean, attribute: "in-bytes" }) isInBytes = false;
  private plot: uPlot | undefined;
  private observer = new ResizeObserver(() => this.resize());
  private stopTheme: (() => void) | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.observer.observe(this);
    this.stopTheme = onThemeChange(() => this.redraw());
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.observer.disconnect();
    this.stopTheme?.();
    this.plot?.destroy();
    this.plot = undefined;
  }

  override render(): TemplateResult {
    const newest = (series: Series) => series.values[series.values.length - 1] ?? null;
    return html`<div class="legend">
        ${this.series.map(
          (series) => html`<span class=${series.colour.slice(2)}><i></i>${series.label} <b>${this.format(newest(series))}</b></span>`,
        )}
      </div>
      <div class="plot"></div>`;
  }

  protected override updated(changed: PropertyValues): void {
    if (changed.has("height") || !this.plot) this.redraw();
    else this.plot.setData(this.data());
  }

  private data(): uPlot.AlignedData {
    return [this.times, ...this.series.map((series) => series.values)] as uPlot.AlignedData;
  }

  /** A chart that has just begun is not stretched over a second. uPlot's own span of a single moment is a day. */
  private span(): [number, number] {
    const end = this.times[this.times.length - 1] ?? now();
    return [Math.min(this.times[0] ?? end, end - SPAN_SECONDS_MIN), end];
  }

  private redraw(): void {
    const target = this.querySelector<HTMLElement>(".plot");
    if (!target || !this.clientWidth) return;
    this.plot?.destroy();
    const axis = { stroke: colour("--ink-faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const font = `11px ${getComputedStyle(this).fontFamily}`;
    this.plot = new uPlot(
      {
        width: this.clientWidth,
        height: this.height,
        // The label of the last moment needs room to the right.
        padding: [8, 24, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: {
          x: { range: () => this.span() },
          y: { range: (_plot, _low, high) => [0, Math.max(high ?? 0, 1) * 1.1] },
        },
        axes: [
          { ...axis, font, size: 26, space: 90, grid: { show: false }, values: (_plot, ticks) => ticks.map(clock) },
          { ...axis, font, size: 58, space: 36, incrs: this.isInBytes ? BYTE_STEPS : WHOLE_STEPS, values: (_plot, ticks) => ticks.map((tick) => this.format(tick)) },
        ],
        series: [
          {},
          ...this.series.map((series) => ({
            label: series.label,
            stroke: colour(series.colour),
            fill: colour(series.colour).replace(/^rgb\((.*)\)$/, "rgba($1, 0.08)"),
            width: 1.75,
            points: { show: false },
          })),
        ],
      },
      this.data(),
      target,
    );
  }

  private resize(): void {
    if (!this.plot) this.redraw();
    else if (this.clientWidth) this.plot.setSize({ width: this.clientWidth, height: this.height });
  }
}

function now(): number {
  return Date.now() / 1000;
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}
