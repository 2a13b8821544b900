/** Numbers, sizes and times as text. A value that is unknown is a dash. */

export const UNKNOWN = "–";

type Maybe = number | null | undefined;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: Maybe): string {
  return value === null || value === undefined ? UNKNOWN : whole.format(value);
}

/** 1,234 as it is, 1,234,567 as 1.2M. */
export function brief(value: Maybe): string {
  if (value === null || value === undefined) return UNKNOWN;
  return Math.abs(value) < 10_000 ? whole.format(value) : short.format(value);
}

export function bytes(value: Maybe): string {
  if (value === null || value === undefined) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  const scaled = value / 1024 ** power;
  return `${scaled.toFixed(power === 0 || scaled >= 100 ? 0 : 1)} ${units[power]}`;
}

export function rate(value: Maybe): string {
  return value === null || value === undefined ? UNKNOWN : `${brief(value)}/s`;
}

export function byteRate(value: Maybe): string {
  return value === null || value === undefined ? UNKNOWN : `${bytes(value)}/s`;
}

/** Date and time of day with milliseconds, in the viewer's time zone. */
export function time(milliseconds: Maybe): string {
  if (milliseconds === null || milliseconds === undefined || milliseconds < 0) return UNKNOWN;
  const moment = new Date(milliseconds);
  const two = (part: number, width = 2) => String(part).padStart(width, "0");
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  return `${day} ${clock}.${two(moment.getMilliseconds(), 3)}`;
}

/** A length of time in its two largest units: 2 h 5 min. */
export function duration(milliseconds: Maybe): string {
  if (milliseconds === null || milliseconds === undefined) return UNKNOWN;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const units: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  let seconds = Math.round(milliseconds / 1000);
  const parts: string[] = [];
  for (const [size, name] of units) {
    const times = Math.floor(seconds / size);
    if (times) parts.push(`${times} ${name}`);
    seconds -= times * size;
  }
  return parts.slice(0, 2).join(" ");
}

export function ago(milliseconds: Maybe): string {
  if (milliseconds === null || milliseconds === undefined || milliseconds < 0) return UNKNOWN;
  return `${duration(Math.max(0, Date.now() - milliseconds))} ago`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
