/** One stream of live figures, shared by all components of a tab. It is closed while the tab is hidden. */

import type { ReactiveController, ReactiveControllerHost } from "lit";
import { get } from "./api.js";
import { Ring } from "./ring.js";
import type { LivePoint } from "./types.js";

const POINTS_KEPT = 600;
/** A browser gives a stream up that was refused, while a stream that broke is opened again by itself. */
const REOPEN_AFTER_MS = 3000;

export type LiveState = "connecting" | "open" | "broken";

class LiveFeed {
  readonly points = new Ring<LivePoint>(POINTS_KEPT);
  state: LiveState = "connecting";
  private listeners = new Set<() => void>();
  private stream: EventSource | undefined;
  private reopenTimer = 0;

  constructor() {
    document.addEventListener("visibilitychange", () => this.adjust());
  }

  get latest(): LivePoint | undefined {
    return this.points.last;
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    this.adjust();
    return () => {
      this.listeners.delete(listener);
      this.adjust();
    };
  }

  private adjust(): void {
    const isWanted = this.listeners.size > 0 && !document.hidden;
    if (isWanted && !this.stream) this.open();
    if (!isWanted) this.close();
  }

  private close(): void {
    window.clearTimeout(this.reopenTimer);
    this.stream?.close();
    this.stream = undefined;
  }

  private open(): void {
    const stream = (this.stream = new EventSource("/api/live"));
    stream.addEventListener("live", (event) => this.add(JSON.parse(event.data) as LivePoint));
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) this.reopenLater();
      this.tell("broken");
    });
    void this.fillFromHistory();
  }

  private reopenLater(): void {
    this.close();
    this.reopenTimer = window.setTimeout(() => this.adjust(), REOPEN_AFTER_MS);
  }

  private async fillFromHistory(): Promise<void> {
    const history = await get<{ points: LivePoint[] }>("/live/history").catch(() => ({ points: [] }));
    const newest = this.points.last?.time ?? 0;
    const missed = history.points.filter((point) => point.time > newest);
    if (missed.length) this.points.push(...missed);
    this.tell(this.state);
  }

  private add(point: LivePoint): void {
    if (point.time > (this.points.last?.time ?? 0)) this.points.push(point);
    this.tell("open");
  }

  private tell(state: LiveState): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

export const live = new LiveFeed();

/** Shows a component again with every live event. */
export class LiveUpdates implements ReactiveController {
  private stop: (() => void) | undefined;

  constructor(private readonly host: ReactiveControllerHost) {
    host.addController(this);
  }

  hostConnected(): void {
    this.stop = live.listen(() => this.host.requestUpdate());
  }

  hostDisconnected(): void {
    this.stop?.();
  }
}
