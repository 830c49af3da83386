/**
 * Replaces references in a part of the document.
 *
 * Swagger UI's own resolver reads the whole document again for each operation that you open, which takes seconds.
 * References of this server's document are all local, so that a few lines do.
 */

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Returns the part of the document at a path, without references. */
export function resolvePart(document: Json, path: string[]): Json {
  return inlined(document, path.reduce(child, document), []);
}

function inlined(document: Json, value: Json, inside: string[]): Json {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((each) => inlined(document, each, inside));
  const reference = value.$ref;
  if (typeof reference !== "string")
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, inlined(document, each, inside)]));
  // A type that contains itself stays a reference.
  if (inside.includes(reference)) return value;
  const target = inlined(document, pointed(document, reference), [...inside, reference]);
  const { $ref: _, ...beside } = value;
  return { ...(target as { [name: string]: Json }), ...beside };
}

function pointed(document: Json, reference: string): Json {
  const names = reference.replace(/^#\//, "").split("/");
  return names.map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")).reduce(child, document);
}

function child(parent: Json, name: string): Json {
  const found = (parent as { [name: string]: Json } | null)?.[name];
  if (found === undefined) throw new Error(`The OpenAPI document has no ${name}.`);
  return found;
}

/** The plugin of Swagger UI that uses this resolver. */
export const resolverPlugin = {
  fn: {
    resolveSubtree: async (document: Json, path: string[]) => ({ spec: resolvePart(document, path), errors: [] }),
  },
};
