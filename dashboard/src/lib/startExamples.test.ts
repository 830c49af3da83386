import { describe, expect, it } from "vitest";

import { startExamples } from "./startExamples";

const URL = "https://queen.example.com/tools";
function codes(hasKeys: boolean): string[] {
  const { push, consume, jobs } = startExamples(URL, hasKeys);
  return [...push, ...consume, ...jobs].map((each) => each.code);
}

describe("the examples of the first run", () => {
  it("call the server that shows them", () => {
    for (const code of codes(false)) expect(code).toContain(URL);
  });

  it("show where the API key belongs if the server needs one", () => {
    for (const code of codes(true)) expect(code).toMatch(/bearer_token="qk_…"|Authorization: Bearer qk_…/);
    for (const code of codes(false)) expect(code).not.toMatch(/qk_|Authorization/);
  });

  it("fit into 80 columns", () => {
    const lines = [...codes(true), ...codes(false)].flatMap((code) => code.split("\n"));
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("continue every line of a command except the last", () => {
    const commands = [...codes(true), ...codes(false)].filter((code) => code.startsWith("curl"));
    expect(commands).toHaveLength(4);
    for (const command of commands) {
      const lines = command.split("\n");
      expect(lines.slice(0, -1).every((line) => line.endsWith(" \\"))).toBe(true);
      expect(lines.at(-1)).not.toMatch(/\\$/);
    }
  });
});
