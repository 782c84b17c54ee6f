// Asks the console's server. Changes bring the session's token along, which other sites cannot read.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let token = "";

export function setToken(value) {
  token = value;
}

export async function call(method, path, body) {
  const headers = {};
  if (method !== "GET") {
    headers["X-Headrace-Token"] = token;
    headers["Content-Type"] = "application/json";
  }
  let reply;
  try {
    reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError(0, "the console does not answer: is it still running?");
  }
  const text = await reply.text();
  let found = {};
  try {
    found = text ? JSON.parse(text) : {};
  } catch {
    throw new ApiError(reply.status, "the console's answer is broken");
  }
  if (!reply.ok) throw new ApiError(reply.status, found.error ?? `the console answered ${reply.status}`);
  return found;
}

/** Calls `tell` with each event of a stream that ends; a refusal is an error as any other. `signal` stops it. */
export async function events(path, tell, signal) {
  let reply;
  try {
    reply = await fetch(path, { signal });
  } catch (error) {
    if (signal.aborted) return;
    throw new ApiError(0, `the console does not answer: ${error.message}`);
  }
  if (!reply.ok) throw new ApiError(reply.status, (await reply.json().catch(() => ({}))).error ?? `the console answered ${reply.status}`);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const parts = (rest + piece.value).split("\n\n");
      rest = parts.pop();
      for (const each of parts) if (each.startsWith("data: ")) tell(JSON.parse(each.slice(6)));
    }
  } catch (error) {
    if (!signal.aborted) throw new ApiError(0, `the stream broke off: ${error.message}`);
  }
}

/** The rows of a long table: all of them first, then what has changed. Gives the function that asks for them. */
export function changingRows(api, table, name) {
  const rows = new Map();
  let version = "";
  return async () => {
    const found = await api.get(version ? `${table}?since=${encodeURIComponent(version)}` : table);
    if (found.whole) rows.clear();
    for (const each of found.gone) rows.delete(each);
    for (const each of found[table]) rows.set(each[name], each);
    version = found.version;
    return [...rows.values()];
  };
}

/** The functions of one cluster: get("topics"), post("topics", {...}). */
export function clusterApi(name) {
  const base = `/api/clusters/${encodeURIComponent(name)}/`;
  return {
    get: (path) => call("GET", base + path),
    post: (path, body) => call("POST", base + path, body),
    patch: (path, body) => call("PATCH", base + path, body),
    remove: (path, body) => call("DELETE", base + path, body),
    url: (path) => base + path,
  };
}
