// Figures and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const compact = (value) =>
  value === null || value === undefined ? "–" : Math.abs(value) < 10000 ? whole.format(Math.round(value)) : short.format(value);

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 10) return `${value.toFixed(1)}/s`;
  return `${compact(value)}/s`;
}

const pad = (value, width = 2) => String(value).padStart(width, "0");

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return `${day(at)} ${clock(at)}.${pad(at.getMilliseconds(), 3)}`;
}

export const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
export const clock = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const [large, unit, small, rest] = seconds < 3600 ? [60, "min", 1, "s"] : seconds < 86400 ? [3600, "h", 60, "min"] : [86400, "d", 3600, "h"];
  const left = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${unit}${left ? ` ${left} ${rest}` : ""}`;
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Milliseconds and bytes of settings, told beside the number. */
export function settingHint(name, value) {
  const number = Number(value);
  if (!value || Number.isNaN(number) || number < 0 || number > 9e15) return "";
  if (name.endsWith(".ms") && number >= 1000) return duration(number);
  if (name.endsWith(".bytes") && number >= 1024) return bytes(number);
  return "";
}
