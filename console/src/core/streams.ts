/** Answers that arrive piece by piece. */

import { errorOf } from "./api.js";

/** The values of an answer with one JSON value per line. Aborting the signal ends the work of the server, too. */
export async function* readLines<Value>(url: string, signal: AbortSignal): AsyncGenerator<Value> {
  const response = await fetch(url, { signal, credentials: "same-origin" });
  if (!response.ok) throw await errorOf(response);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) yield JSON.parse(line) as Value;
  }
  if (rest.trim()) yield JSON.parse(rest) as Value;
}
