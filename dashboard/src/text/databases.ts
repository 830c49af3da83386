/** Texts of the databases section of the system page. */

import { plural } from "../lib/format";

export const texts = {
  one: "This server has one database",
  oneHelp: (name: string, queues: string) => `It is named ${name} and has ${queues}. If one PostgreSQL server can't carry your load, add a database.`,
  guide: "How to use several databases",
  databases: "Databases",
  available: "available",
  unavailable: "unavailable",
  load: "Payload bytes pushed per second, over the last five minutes",
  slots: "Slots with queues",
  slotsHelp: "A slot is one of 1,024 parts of all queues. Its queues move together.",
  search: "Slot, queue or database",
  noSlot: "No matching slots",
  noSlotHelp: "No slot with queues has this number, and no queue or database has this text in its name.",
  noQueues: "No queues yet",
  noQueuesHelp: "Slots are listed when they have queues.",
  more: (many: number) => `and ${plural(many, "more", "more")}`,
  handedOver: "handing over",
  blocked: "blocked",
} as const;

export const mapTexts = {
  title: "Map of slots",
  help: "Each mark is a slot. Select one to find it in the list.",
  legend: "Legend",
  states: { empty: "empty", used: "with queues", moving: "moving" },
  counts: (slots: number, used: number, moving: number) =>
    `${plural(slots, "slot")}, ${used} with queues${moving ? `, ${moving} moving` : ""}`,
  unavailable: (slots: number) => `${plural(slots, "slot")}, unavailable`,
  slot: (number: number) => `Slot ${number}`,
} as const;

export const moveTexts = {
  title: "Moves in progress",
  operation: (id: string) => `Operation ${id}`,
  started: (by: string, when: string) => `started by ${by} ${when}`,
  moved: (done: number, total: number | null) => `${done} of ${plural(total, "slot")} moved`,
  current: (slot: number, from: string, to: string) => `Now slot ${slot} from ${from} to ${to}`,
  copied: (percent: number, copied: string, total: string) => `${percent} % copied, ${copied} of about ${total}`,
  share: (to: string, percent: number | null) => (percent === null ? `to ${to}` : `to ${to}, ${percent} %`),
  waits: (reason: string) => `Waits: ${reason}`,
  left: (to: string) => `unfinished copy in ${to}`,
  cancel: "Cancel move",
  cancelTitle: (id: string) => `Cancel move: operation ${id}`,
  cancelDescription:
    "Slots that have moved stay where they are. The copy of the current slot is erased, unless the slot is being handed over.",
  keep: "Keep moving",

  move: "Move",
  open: "Move queues",
  moveTitle: "Move queues to another database",
  moveDescription: "Clients keep pushing and consuming. All queues of a slot move together.",
  what: "What to move",
  slot: "Slot",
  queue: "Queue",
  namespace: "Namespace",
  slotNumber: "Slot number, from 0 to 1023",
  to: "To database",
  queuesOfSlot: (names: string) => `Its queues: ${names}`,
  hindered: (reason: string) => `The move waits until this ends: ${reason}`,

  drain: "Drain",
  drainTitle: (name: string) => `Drain ${name}`,
  drainDescription: (slots: string, name: string) =>
    `All ${slots} of ${name} move evenly to the other databases, while their queues are in use. Then you can remove it with queen shard rm.`,
} as const;

export const rebalanceTexts = {
  open: "Rebalance",
  title: "Rebalance databases",
  description:
    "Move slots so that the load of all databases is even, while their queues are in use. If a slot has moved before you start, the server rejects the plan.",
  action: "Move slots",
  planning: "Planning…",
  count: (moves: number) => (moves ? `${plural(moves, "slot")} will move.` : "The load is even. No slot needs to move."),
  moves: "Planned moves",
  loads: "Load before and after",
  move: (slot: number, from: string, to: string) => `Slot ${slot}: ${from} → ${to}`,
  reason: (from: string, measure: string, to: string) => `${from} has more ${measure} than ${to}.`,
  measures: { bytesPerSecond: "bytes per second", bytes: "stored bytes", slots: "slots with queues" },
} as const;
