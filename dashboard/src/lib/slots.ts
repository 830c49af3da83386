/** Slots and databases: which slots a database owns, and how far their moves are. */

import type { Schemas } from "../api/client";

export type Database = Schemas["Shard"];
export type Slot = Schemas["Slot"];
type SlotMove = Schemas["SlotMove"];

export type CellState = "empty" | "used" | "moving";

/** A slot in the map of its database. */
export interface Cell {
  number: number;
  state: CellState;
  slot: Slot | null;
}

/** The slots that a database owns, in order. A slot that moves belongs to the database that it leaves. */
export function cellsOf(database: Database, slots: readonly Slot[]): Cell[] {
  const listed = new Map(slots.map((slot) => [slot.slot, slot]));
  const numbers = database.ranges
    .flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, at) => first + at))
    .filter((number) => (listed.get(number)?.database ?? database.name) === database.name);
  const leaving = slots.filter((slot) => slot.database === database.name && !numbers.includes(slot.slot));
  return [...numbers, ...leaving.map((slot) => slot.slot)]
    .sort((a, b) => a - b)
    .map((number) => cellOf(number, listed.get(number) ?? null));
}

function cellOf(number: number, slot: Slot | null): Cell {
  if (slot?.move) return { number, state: "moving", slot };
  return { number, state: slot?.queueCount ? "used" : "empty", slot };
}

/** How many cells are in each state. */
export function countCells(cells: readonly Cell[]): Record<CellState, number> {
  const counts = { empty: 0, used: 0, moving: 0 };
  for (const cell of cells) counts[cell.state] += 1;
  return counts;
}

/**
 * The percentage of a slot that is copied, or null before the copy begins.
 *
 * It stays below 100 until the slot has moved, because the total is an estimate and new messages are copied too.
 */
export function copiedPercent(move: SlotMove): number | null {
  if (!move.totalBytes) return null;
  return Math.min(99, Math.floor((100 * move.copiedBytes) / move.totalBytes));
}

/** The slot that an operation copies now, or null between two copies. */
export function currentSlot(operation: string, slots: readonly Slot[]): Slot | null {
  return slots.find((slot) => slot.move?.operation === operation && slot.move.totalBytes !== null) ?? null;
}

/** How many slots of an operation have moved, with the copied share of the current one. */
export function movedSlots(operation: Schemas["Operation"], slots: readonly Slot[]): number {
  const move = currentSlot(operation.id, slots)?.move;
  return operation.done + ((move && copiedPercent(move)) ?? 0) / 100;
}

export const SORTS = ["-bytesPerSecond", "slot", "-slot", "-messagesPerSecond", "-queueCount"] as const;
export type Sort = (typeof SORTS)[number];

/** Slots whose number is the text, or that have a queue or a database whose name contains it. */
export function found(slots: readonly Slot[], text: string): Slot[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [...slots];
  return slots.filter(
    (slot) =>
      String(slot.slot) === wanted || [slot.database, ...slot.queues].some((name) => name.toLowerCase().includes(wanted)),
  );
}

/** Slots in an order. Equal ones are in the order of their numbers. */
export function sorted(slots: readonly Slot[], sort: Sort): Slot[] {
  const key = sort.replace("-", "") as "slot" | "bytesPerSecond" | "messagesPerSecond" | "queueCount";
  const sign = sort.startsWith("-") ? -1 : 1;
  return slots.toSorted((a, b) => sign * (a[key] - b[key]) || a.slot - b.slot);
}
