/** An answer of the API that a component shows: loading, failed or there. */

import { html, nothing, type ReactiveController, type ReactiveControllerHost, type TemplateResult } from "lit";
import { failure, skeleton } from "../parts/states.js";
import { ApiError } from "./api.js";
import { live } from "./live.js";

export class Resource<Value> implements ReactiveController {
  value: Value | undefined;
  error: ApiError | undefined;
  private aborter: AbortController | undefined;
  private timer: number | undefined;
  private isLoading = false;
  private stopFollowing: (() => void) | undefined;
  private health: string | undefined;

  constructor(
    private readonly host: ReactiveControllerHost,
    private readonly load: (signal: AbortSignal) => Promise<Value>,
    private readonly options: { everySeconds?: number; followsHealth?: boolean } = {},
  ) {
    host.addController(this);
  }

  hostConnected(): void {
    void this.reload();
    if (this.options.followsHealth) this.stopFollowing = live.listen(() => this.onLive());
    if (this.options.everySeconds) {
      this.timer = window.setInterval(() => {
        // An answer that takes longer than the period is waited for: asking again would never show it.
        if (!document.hidden && !this.isLoading) void this.reload();
      }, this.options.everySeconds * 1000);
    }
  }

  /** A broker that is lost or back is shown at once, and not with the next period. */
  private onLive(): void {
    const point = live.latest;
    if (!point) return;
    const health = `${point.health} ${point.brokers_alive} ${point.brokers_total} ${point.offline_partitions}`;
    const isNew = this.health !== undefined && this.health !== health;
    this.health = health;
    if (isNew) void this.reload();
  }

  hostDisconnected(): void {
    this.stopFollowing?.();
    this.aborter?.abort();
    this.isLoading = false;
    window.clearInterval(this.timer);
  }

  /** Loads again. What is shown stays until the new answer is there. */
  async reload(): Promise<void> {
    this.aborter?.abort();
    const aborter = (this.aborter = new AbortController());
    this.isLoading = true;
    try {
      this.value = await this.load(aborter.signal);
      this.error = undefined;
    } catch (error) {
      if (aborter.signal.aborted) return;
      this.error = error instanceof ApiError ? error : new ApiError(0, "ERROR", String(error));
    } finally {
      if (this.aborter === aborter) this.isLoading = false;
    }
    if (!aborter.signal.aborted) this.host.requestUpdate();
  }

  /** The head is shown above the placeholder or the error, so that a page has its title and the way back at once. */
  render(show: (value: Value) => TemplateResult, head: unknown = nothing): TemplateResult {
    if (this.value !== undefined) {
      return html`${this.error ? failure(this.error, () => void this.reload()) : ""}${show(this.value)}`;
    }
    return html`${head}${this.error ? failure(this.error, () => void this.reload()) : skeleton()}`;
  }
}
