/** A queue with its schema as it was written. */

import { type Json, member, parseJson, plainOf } from "../lib/json";
import { http, type Schemas, unwrap } from "./client";

/** Queue options whose schema keeps its original text, because JavaScript would round large numbers. */
export type Options = Omit<Schemas["QueueOptions"], "schema"> & { schema?: Json | null };
export type Queue = Omit<Schemas["QueueDetail"], "options"> & { options: Options };

export async function readQueue(name: string, signal?: AbortSignal): Promise<Queue> {
  const params = { path: { queue: name } };
  const json = parseJson(await unwrap(http.GET("/api/v1/resources/queues/{queue}", { params, parseAs: "text", signal })));
  const queue = plainOf(json) as Schemas["QueueDetail"];
  const schema = member(member(json, "options"), "schema");
  return { ...queue, options: { ...queue.options, schema: schema?.kind === "null" ? null : schema } };
}

/** Save options. The server rejects them if the queue changed since this version. */
export async function configure(queue: Pick<Queue, "name" | "version">, options: Record<string, string>): Promise<void> {
  const members = Object.entries(options).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  await unwrap(
    http.POST("/api/v1/configure", {
      params: { header: { "If-Match": String(queue.version) } },
      body: { queue: queue.name, mode: "merge" },
      bodySerializer: (body) => `${JSON.stringify(body).slice(0, -1)},"options":{${members.join(",")}}}`,
    }),
  );
}
