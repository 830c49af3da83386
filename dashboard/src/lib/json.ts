/**
 * JSON that keeps its text. JSON.parse would round large numbers, reorder numeric keys and drop duplicate
 * keys, so each value stores its original text here.
 */

import { errorTexts } from "../text/errors";

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
  /** The content of a string without quotes and escapes, otherwise the original text. */
  text: string;
  raw: string;
}
export type Json = JsonObject | JsonArray | JsonLeaf;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const WORD = /true|false|null/y;

/** Throws a SyntaxError for invalid JSON. */
export function parseJson(source: string): Json {
  let at = 0;

  function match(pattern: RegExp): string {
    pattern.lastIndex = at;
    const found = pattern.exec(source)?.[0] ?? "";
    at += found.length;
    return found;
  }

  function fail(): never {
    throw new SyntaxError(errorTexts.invalidJson(at));
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

export const NULL: Json = { kind: "null", text: "null", raw: "null" };

/** Why a text is not valid JSON, or empty if it is. */
export function jsonFault(source: string): string {
  try {
    parseJson(source);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** Convert to a JavaScript value. Use it only where rounding is harmless. */
export function plainOf(json: Json): unknown {
  return JSON.parse(json.raw) as unknown;
}

export function member(json: Json | undefined, key: string): Json | undefined {
  return json?.kind === "object" ? json.entries.find(([name]) => name === key)?.[1] : undefined;
}

/** `customer.lines[2]["a b"]`. Empty for the payload itself. */
export function pathOf(steps: readonly (string | number)[]): string {
  return steps.reduce<string>((path, step) => {
    if (typeof step === "number") return `${path}[${step}]`;
    if (/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(step)) return path ? `${path}.${step}` : step;
    return `${path}[${JSON.stringify(step)}]`;
  }, "");
}

/** True for a value of `parseJson`, false for plain JavaScript values. */
export function isJson(value: unknown): value is Json {
  return value !== null && typeof value === "object" && "kind" in value && "raw" in value;
}

/** Canonical text: sorted members, no spaces, numbers as they were written. */
export function canonical(json: Json): string {
  if (json.kind === "object") {
    const members = json.entries.map(([key, value]) => `${JSON.stringify(key)}:${canonical(value)}`);
    return `{${members.sort().join(",")}}`;
  }
  if (json.kind === "array") return `[${json.items.map(canonical).join(",")}]`;
  return json.kind === "string" ? JSON.stringify(json.text) : json.raw;
}

/** The children of a value, with their keys or indexes. */
export function childrenOf(json: Json): [string | number, Json][] {
  if (json.kind === "object") return json.entries;
  return json.kind === "array" ? json.items.map((item, at) => [at, item]) : [];
}

/** Format over several lines. Every value keeps its original text. */
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
