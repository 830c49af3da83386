/**
 * JSON as it was written. JavaScript would round large numbers, sort keys that look like numbers and forget one of two
 * equal keys; here each value keeps its own text.
 */

export interface JsonObject {
  kind: "object";
  entries: [string, Json][];
  raw: string;
}
export interface JsonArray {
  kind: "array";
  items: Json[];
  raw: string;
}
export interface JsonLeaf {
  kind: "string" | "number" | "boolean" | "null";
  /** Of a string: what it says, without quotes and escapes; else as written. */
  text: string;
  raw: string;
}
export type Json = JsonObject | JsonArray | JsonLeaf;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const WORD = /true|false|null/y;

/** Throws a SyntaxError for what is no JSON. */
export function parseJson(source: string): Json {
  let at = 0;

  function match(pattern: RegExp): string {
    pattern.lastIndex = at;
    const found = pattern.exec(source)?.[0] ?? "";
    at += found.length;
    return found;
  }

  function fail(): never {
    throw new SyntaxError(`This is no JSON, from character ${at} on.`);
  }

  function take(sign: string): boolean {
    match(SPACE);
    if (source[at] !== sign) return false;
    at += 1;
    return true;
  }

  function string(): string {
    match(SPACE);
    const raw = match(STRING);
    if (!raw) fail();
    return raw;
  }

  function object(start: number): JsonObject {
    const entries: [string, Json][] = [];
    if (!take("}")) {
      do {
        const key = JSON.parse(string()) as string;
        if (!take(":")) fail();
        entries.push([key, value()]);
      } while (take(","));
      if (!take("}")) fail();
    }
    return { kind: "object", entries, raw: source.slice(start, at) };
  }

  function array(start: number): JsonArray {
    const items: Json[] = [];
    if (!take("]")) {
      do items.push(value());
      while (take(","));
      if (!take("]")) fail();
    }
    return { kind: "array", items, raw: source.slice(start, at) };
  }

  function value(): Json {
    match(SPACE);
    const start = at;
    if (take("{")) return object(start);
    if (take("[")) return array(start);
    if (source[at] === '"') {
      const raw = string();
      return { kind: "string", text: JSON.parse(raw) as string, raw };
    }
    const word = match(WORD);
    if (word) return { kind: word === "null" ? "null" : "boolean", text: word, raw: word };
    const raw = match(NUMBER);
    if (!raw) fail();
    return { kind: "number", text: raw, raw };
  }

  const root = value();
  match(SPACE);
  if (at < source.length) fail();
  return root;
}

/** The same as JavaScript has it, for what is known to fit. */
export function plainOf(json: Json): unknown {
  return JSON.parse(json.raw) as unknown;
}

export function member(json: Json | undefined, key: string): Json | undefined {
  return json?.kind === "object" ? json.entries.find(([name]) => name === key)?.[1] : undefined;
}

/** `customer.lines[2]["a b"]`, as people write it; of the payload itself: nothing. */
export function pathOf(steps: readonly (string | number)[]): string {
  return steps.reduce<string>((path, step) => {
    if (typeof step === "number") return `${path}[${step}]`;
    if (/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(step)) return path ? `${path}.${step}` : step;
    return `${path}[${JSON.stringify(step)}]`;
  }, "");
}

/** Whether a value is one of these, and not what JavaScript makes of JSON. */
export function isJson(value: unknown): value is Json {
  return value !== null && typeof value === "object" && "kind" in value && "raw" in value;
}

/** The same text for the same value: members by name, no spaces, numbers as they were written. */
export function canonical(json: Json): string {
  if (json.kind === "object") {
    const members = json.entries.map(([key, value]) => `${JSON.stringify(key)}:${canonical(value)}`);
    return `{${members.sort().join(",")}}`;
  }
  if (json.kind === "array") return `[${json.items.map(canonical).join(",")}]`;
  return json.kind === "string" ? JSON.stringify(json.text) : json.raw;
}

/** The children of a value, with their steps. */
export function childrenOf(json: Json): [string | number, Json][] {
  if (json.kind === "object") return json.entries;
  return json.kind === "array" ? json.items.map((item, at) => [at, item]) : [];
}

/** Over several lines, for people and for comparing; every value as it was written. */
export function indented(json: Json, indent = ""): string {
  const more = `${indent}  `;
  if (json.kind === "object" && json.entries.length) {
    const lines = json.entries.map(([key, value]) => `${more}${JSON.stringify(key)}: ${indented(value, more)}`);
    return `{\n${lines.join(",\n")}\n${indent}}`;
  }
  if (json.kind === "array" && json.items.length) {
    return `[\n${json.items.map((item) => more + indented(item, more)).join(",\n")}\n${indent}]`;
  }
  return json.raw;
}
