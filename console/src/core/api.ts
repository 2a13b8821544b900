/** Calls of the API. A refused call raises an ApiError, which carries the server's hint. */

import type { Outcome, Session } from "./types.js";

export type Query = Record<string, string | number | boolean | null | undefined>;
export type Method = "POST" | "PUT" | "PATCH" | "DELETE";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

/** Fires on `window` when the server no longer knows the session. */
export const LOGGED_OUT = "ottla-logged-out";

let csrfToken = "";

/** A path of the API: every value is encoded, so that a name with a slash stays one segment. */
export function at(strings: TemplateStringsArray, ...names: (string | number)[]): string {
  return strings.reduce((path, part, index) => path + encodeURIComponent(String(names[index - 1])) + part);
}

export function withQuery(path: string, query: Query): string {
  const present = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(present.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

export async function get<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> {
  return send<Answer>("GET", withQuery(`/api${path}`, query), { signal });
}

/** Changes something or, with `dry_run`, tells what would change. */
export async function change(method: Method, path: string, body: object): Promise<Outcome> {
  return send<Outcome>(method, `/api${path}`, jsonBody(body));
}

/** A POST that reads: it has a body, but changes nothing. */
export async function ask<Answer>(path: string, body: object): Promise<Answer> {
  return send<Answer>("POST", `/api${path}`, jsonBody(body));
}

export async function readSession(): Promise<Session> {
  return remembered(await get<Session>("/session"));
}

export async function logIn(user: string, password: string, mechanism: string): Promise<Session> {
  const body = mechanism ? { user, password, mechanism } : { user, password };
  return remembered(await send<Session>("POST", "/api/login", jsonBody(body)));
}

export async function logOut(): Promise<void> {
  await send("POST", "/api/logout", jsonBody({}));
}

function remembered(session: Session): Session {
  csrfToken = session.csrf_token;
  return session;
}

function jsonBody(body: object): RequestInit {
  return {
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrfToken },
  };
}

async function send<Answer>(method: string, url: string, options: RequestInit): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(url, { method, credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "CONSOLE_UNREACHABLE", "The console does not answer.", "Is `ottla console` still running?");
  }
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as Answer;
}

export async function errorOf(response: Response): Promise<ApiError> {
  const { code, message, hint } = await response
    .json()
    .then((body) => body.error ?? {})
    .catch(() => ({}));
  if (code === "NOT_LOGGED_IN") window.dispatchEvent(new Event(LOGGED_OUT));
  return new ApiError(response.status, code ?? "ERROR", message ?? `The server answered ${response.status}.`, hint);
}
