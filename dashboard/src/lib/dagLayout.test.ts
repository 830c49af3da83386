import { describe, expect, it } from "vitest";

import { draw, HEIGHT, type Node, WIDTH } from "./dagLayout";

function at(nodes: Node[]) {
  return new Map(draw(nodes).nodes.map((node) => [node.name, node]));
}

/** Steps with pseudo-random edges to later steps. */
function thicket(count: number): Node[] {
  return Array.from({ length: count }, (_, number) => ({
    name: `s${number}`,
    onSuccess: [3, 7, 29].map((by) => number + 1 + ((number * by) % 11)).map((to) => `s${to}`),
    onFailure: number % 5 ? [] : [`s${number + 2}`],
  })).flatMap((node, number): Node[] =>
    number % 9 ? [node] : [node, { name: `${node.name}:undo`, undoes: node.name }],
  );
}

describe("the layout of a workflow", () => {
  it("places following steps to the right, in a line", () => {
    const placed = at([{ name: "a", onSuccess: ["b"] }, { name: "b", onSuccess: ["c"] }, { name: "c" }]);
    expect(["a", "b", "c"].map((name) => placed.get(name)!.column)).toEqual([0, 1, 2]);
    expect(new Set([...placed.values()].map((node) => node.y)).size).toBe(1);
  });

  it("places a join after its last predecessor, centred between them", () => {
    const placed = at([
      { name: "a", onSuccess: ["b", "c", "join"] },
      { name: "b", onSuccess: ["join"] },
      { name: "c", onFailure: ["join"] },
      { name: "join" },
    ]);
    expect(placed.get("join")!.column).toBe(2);
    const [b, c] = [placed.get("b")!, placed.get("c")!];
    expect(Math.abs(b.y - c.y)).toBeGreaterThanOrEqual(HEIGHT);
    expect(Math.min(b.y, c.y)).toBeLessThanOrEqual(placed.get("join")!.y);
    expect(Math.max(b.y, c.y)).toBeGreaterThanOrEqual(placed.get("join")!.y);
  });

  it("places an undo step below its step, without edges to other columns", () => {
    const nodes: Node[] = [{ name: "a", onSuccess: ["b"] }, { name: "b" }, { name: "a:undo", undoes: "a" }];
    const placed = at(nodes);
    expect(placed.get("a:undo")!.x).toBe(placed.get("a")!.x);
    expect(placed.get("a:undo")!.y).toBeGreaterThanOrEqual(placed.get("a")!.y + HEIGHT);
    expect(draw(nodes).edges.map((edge) => edge.way)).toEqual(["success", "undo"]);
  });

  it.each([1, 12, 100, 1_000])("keeps %i steps from overlapping", (count) => {
    const { nodes, width, height } = draw(thicket(count));
    for (const [number, one] of nodes.entries()) {
      expect(one.x >= 0 && one.y >= 0 && one.x + WIDTH <= width && one.y + HEIGHT <= height).toBe(true);
      for (const other of nodes.slice(number + 1))
        if (one.column === other.column && Math.abs(one.y - other.y) < HEIGHT) throw new Error(`${one.name} ${other.name}`);
    }
  });

  it("is empty without steps", () => {
    expect(draw([]).nodes).toEqual([]);
  });
});
