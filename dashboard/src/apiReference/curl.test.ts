import { expect, it } from "vitest";

import { curlCommand, type SentRequest } from "./curl";

/** The part of an Immutable.js map that is in use. */
class Fields {
  constructor(readonly entries: Record<string, string>) {}
  map(change: (value: string, name: string) => string): Fields {
    return new Fields(Object.fromEntries(Object.entries(this.entries).map(([name, value]) => [name, change(value, name)])));
  }
}

const sent = (headers?: Fields) => ({ headers, update: (_: string, change: (headers?: Fields) => Fields) => sent(change(headers)) });
const generate = (request: SentRequest) =>
  Object.entries((request as unknown as { headers?: Fields }).headers?.entries ?? {})
    .map(([name, value]) => `-H '${name}: ${value}'`)
    .join(" ");
const command = (headers?: Fields) => curlCommand(sent(headers) as unknown as SentRequest, generate);

it.each(["Authorization", "authorization"])("replaces the token in %s by a variable of the shell", (name) => {
  expect(command(new Fields({ accept: "*/*", [name]: "Bearer qk_a_secret" }))).toBe(
    `-H 'accept: */*' -H "${name}: Bearer $QUEEN_TOKEN"`,
  );
});

it("shows a request without headers", () => expect(command()).toBe(""));
