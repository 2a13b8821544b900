/** Who is logged in, and what that person may do. */

import type { Session } from "./types.js";

let current: Session | null = null;

export function setSession(session: Session | null): void {
  current = session;
}

export function session(): Session | null {
  return current;
}

export function mayWrite(): boolean {
  return current?.rights.write ?? false;
}

export function hasFeature(name: string): boolean {
  return current?.features[name] ?? false;
}

/** What a cluster does not have. While the cluster does not answer, nothing is known to be missing. */
export function lacksFeature(name: string): boolean {
  return current?.features[name] === false;
}

/** Whether the cluster has told what it has. */
export function isClusterKnown(): boolean {
  return current?.cluster_id !== null;
}
