import { describe, expect, it } from "vitest";

import { cellsOf, copiedPercent, countCells, currentSlot, type Database, found, movedSlots, type Slot, sorted } from "./slots";

function database(name: string, ranges: [number, number][]): Database {
  const owned = ranges.map(([first, last]) => ({ first, last }));
  return { name, available: true, slots: 1, ranges: owned, queues: 0, bytes: 0, messagesPerSecond: 0, bytesPerSecond: 0 };
}

function slot(number: number, overrides: Partial<Slot> = {}): Slot {
  return {
    slot: number,
    database: "main",
    leaving: false,
    epoch: 1,
    queues: ["orders"],
    queueCount: 1,
    messagesPerSecond: 0,
    bytesPerSecond: 0,
    move: null,
    hindrances: [],
    ...overrides,
  };
}

const move = { to: "two", operation: "7", copiedBytes: 45, totalBytes: 100 };

describe("the map of a database", () => {
  it("has a cell for each slot that the database owns", () => {
    const cells = cellsOf(database("main", [[0, 1], [5, 7]]), [slot(1), slot(6, { move }), slot(900, { database: "two" })]);
    expect(cells.map((each) => [each.number, each.state])).toEqual([
      [0, "empty"],
      [1, "used"],
      [5, "empty"],
      [6, "moving"],
      [7, "empty"],
    ]);
    expect(countCells(cells)).toEqual({ empty: 3, used: 1, moving: 1 });
  });

  it("shows a moving slot without queues as moving", () => {
    expect(cellsOf(database("main", [[3, 3]]), [slot(3, { queues: [], queueCount: 0, move })])[0]?.state).toBe("moving");
  });

  it("has each slot once while the ranges and the slots were read at different moments of a move", () => {
    const arrived = slot(4, { database: "two" });
    expect(cellsOf(database("main", [[4, 5]]), [arrived]).map((each) => each.number)).toEqual([5]);
    expect(cellsOf(database("two", [[9, 9]]), [arrived]).map((each) => each.number)).toEqual([4, 9]);
  });

  it("is complete for 1,024 slots in 16 databases", () => {
    const all = Array.from({ length: 16 }, (_, at) =>
      database(`db${at}`, Array.from({ length: 64 }, (_, n) => [16 * n + at, 16 * n + at] as [number, number])),
    );
    const numbers = all.flatMap((each) => cellsOf(each, [])).map((each) => each.number);
    expect(new Set(numbers).size).toBe(1_024);
    expect(numbers).toHaveLength(1_024);
  });
});

describe("the progress of a move", () => {
  it.each([
    [0, 100, 0],
    [45, 100, 45],
    [999, 1_000, 99],
    [1_200, 1_000, 99],
    [0, 0, null],
    [0, null, null],
  ])("is the copied share of the estimate: %s of %s is %s", (copiedBytes, totalBytes, percent) => {
    expect(copiedPercent({ ...move, copiedBytes, totalBytes })).toBe(percent);
  });

  it("is that of the slot that the operation copies now", () => {
    const waiting = slot(1, { move: { ...move, totalBytes: null } });
    const copied = slot(2, { move });
    expect(currentSlot("7", [waiting, copied])?.slot).toBe(2);
    expect(currentSlot("7", [waiting])).toBeNull();
    expect(currentSlot("8", [copied])).toBeNull();
  });
});

describe("the progress of an operation", () => {
  const operation: Parameters<typeof movedSlots>[0] = {
    id: "7",
    kind: "move_slots",
    state: "running",
    done: 3,
    total: 5,
    error: null,
    queue: null,
    createdBy: "operator",
    createdAt: "2030-01-01T00:00:00Z",
    finishedAt: null,
  };

  it("includes the copied share of the current slot", () => {
    expect(movedSlots(operation, [slot(1, { move })])).toBe(3.45);
  });

  it("is the number of moved slots between two copies", () => {
    expect(movedSlots(operation, [slot(1, { move: { ...move, totalBytes: null } })])).toBe(3);
    expect(movedSlots(operation, [])).toBe(3);
  });
});

describe("the list of slots", () => {
  const slots = [
    slot(3, { bytesPerSecond: 5, queues: ["Billing"], database: "two" }),
    slot(1, { bytesPerSecond: 9 }),
    slot(31, { bytesPerSecond: 5 }),
  ];

  it.each([
    ["-bytesPerSecond", [1, 3, 31]],
    ["slot", [1, 3, 31]],
    ["-slot", [31, 3, 1]],
  ] as const)("is sorted by %s", (sort, expected) => {
    expect(sorted(slots, sort).map((each) => each.slot)).toEqual(expected);
  });

  it.each([
    ["", [3, 1, 31]],
    ["3", [3]],
    [" bill ", [3]],
    ["TWO", [3]],
    ["absent", []],
  ])("is searched for %j", (text, expected) => {
    expect(found(slots, text).map((each) => each.slot)).toEqual(expected);
  });
});
