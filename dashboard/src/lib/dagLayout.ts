/** Lay out the steps of a workflow as a graph, with columns by depth and edges between them. */

export interface Node {
  name: string;
  undoes?: string | null;
  onSuccess?: readonly string[];
  onFailure?: readonly string[];
}
export type Way = "success" | "failure" | "undo";
export interface Placed {
  name: string;
  column: number;
  x: number;
  y: number;
}
export interface Edge {
  from: string;
  to: string;
  way: Way;
  /** The `d` attribute of an SVG path. */
  path: string;
}
export interface Drawing {
  width: number;
  height: number;
  nodes: Placed[];
  edges: Edge[];
}

export const WIDTH = 208;
export const HEIGHT = 68;
const BETWEEN_COLUMNS = 56;
const BETWEEN_ROWS = 20;
const ABOVE_UNDO = 22;
const PADDING = 12;
/** Vertical offset of each kind of edge, so that two edges between the same steps stay distinct. */
const PORTS: Record<Way, number> = { success: 26, failure: 44, undo: 0 };
const BEND_HEIGHT = 6;
/** Above this total of crossed columns, long edges are drawn straight across. */
const MOST_BENDS = 3_000;

/** A slot in a column: a step with its undo step below, or a point where a long edge passes. */
interface Item {
  name: string | null;
  column: number;
  height: number;
  /** Distance from the top to the point where edges meet. */
  anchor: number;
  before: Item[];
  after: Item[];
  rank: number;
  top: number;
}
interface Link {
  from: string;
  to: string;
  way: Way;
  bends: Item[];
}

function linksOf(nodes: readonly Node[]): Link[] {
  const known = new Set(nodes.map((node) => node.name));
  return nodes.flatMap((node) => {
    const ways = (targets: readonly string[] | undefined, way: Way) =>
      (targets ?? []).filter((to) => known.has(to)).map((to) => ({ from: node.name, to, way, bends: [] }));
    return [...ways(node.onSuccess, "success"), ...ways(node.onFailure, "failure")];
  });
}

/** The longest path from a start to each step. */
function depthsOf(nodes: readonly Node[], links: readonly Link[]): Map<string, number> {
  const depths = new Map(nodes.map((node) => [node.name, 0]));
  const open = new Map(nodes.map((node) => [node.name, 0]));
  const following = new Map<string, string[]>();
  for (const { from, to } of links) {
    open.set(to, open.get(to)! + 1);
    following.set(from, [...(following.get(from) ?? []), to]);
  }
  const ready = nodes.map((node) => node.name).filter((name) => open.get(name) === 0);
  for (const name of ready) {
    for (const to of following.get(name) ?? []) {
      depths.set(to, Math.max(depths.get(to)!, depths.get(name)! + 1));
      open.set(to, open.get(to)! - 1);
      if (open.get(to) === 0) ready.push(to);
    }
  }
  return depths;
}

function itemOf(name: string | null, column: number, height: number, anchor: number): Item {
  return { name, column, height, anchor, before: [], after: [], rank: 0, top: 0 };
}

function join(from: Item, to: Item): void {
  from.after.push(to);
  to.before.push(from);
}

/** Split long edges, so that each part connects neighbouring columns. */
function bend(links: readonly Link[], items: Map<string, Item>, columns: Item[][]): void {
  const span = (link: Link) => items.get(link.to)!.column - items.get(link.from)!.column;
  const isBent = links.reduce((sum, link) => sum + Math.max(0, span(link) - 1), 0) <= MOST_BENDS;
  for (const link of links) {
    let last = items.get(link.from)!;
    const to = items.get(link.to)!;
    for (let column = last.column + 1; isBent && column < to.column; column += 1) {
      const item = itemOf(null, column, BEND_HEIGHT, BEND_HEIGHT / 2);
      columns[column]!.push(item);
      link.bends.push(item);
      join(last, item);
      last = item;
    }
    join(last, to);
  }
}

function mean(values: readonly number[]): number | null {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

function rank(column: Item[]): void {
  column.forEach((item, at) => (item.rank = at));
}

/** Order a column by the position of its neighbours, to reduce crossings. */
function sort(column: Item[], side: "before" | "after"): void {
  const wanted = new Map(column.map((item) => [item, mean(item[side].map((each) => each.rank)) ?? item.rank]));
  column.sort((a, b) => wanted.get(a)! - wanted.get(b)! || a.rank - b.rank);
  rank(column);
}

/**
 * Move the slots of a column as close to their ideal positions as order and gaps allow. Slots that would overlap
 * are merged and move together, to the mean of their ideal positions.
 */
function settle(column: readonly Item[], sides: readonly ("before" | "after")[]): void {
  const blocks: { sum: number; count: number }[] = [];
  const offsets: number[] = [];
  let offset = 0;
  for (const item of column) {
    const near = sides.flatMap((side) => item[side]).map((each) => each.top + each.anchor);
    const wanted = mean(near);
    offsets.push(offset);
    blocks.push({ sum: (wanted === null ? item.top : wanted - item.anchor) - offset, count: 1 });
    offset += item.height + BETWEEN_ROWS;
    for (let last = blocks.at(-1)!, above = blocks.at(-2); above; above = blocks.at(-2)) {
      if (above.sum / above.count <= last.sum / last.count) break;
      above.sum += last.sum;
      above.count += last.count;
      blocks.pop();
      last = above;
    }
  }
  let at = 0;
  for (const block of blocks)
    for (let left = block.count; left > 0; left -= 1, at += 1)
      column[at]!.top = Math.round(block.sum / block.count + offsets[at]!);
}

function arrange(columns: Item[][]): void {
  columns.forEach(rank);
  for (let round = 0; round < 4; round += 1) {
    for (const column of columns.slice(1)) sort(column, "before");
    for (const column of columns.slice(0, -1).reverse()) sort(column, "after");
  }
  for (const column of columns.slice(1)) sort(column, "before");
  for (const column of columns) settle(column, []);
  for (const column of columns.slice(1)) settle(column, ["before"]);
  for (const column of columns.slice(0, -1).reverse()) settle(column, ["after"]);
  for (const column of columns) settle(column, ["before", "after"]);
}

function left(column: number): number {
  return PADDING + column * (WIDTH + BETWEEN_COLUMNS);
}

function pathOf(link: Link, from: Item, to: Item): string {
  const port = PORTS[link.way];
  let x = left(from.column) + WIDTH;
  let y = from.top + port;
  const parts = [`M${x} ${y}`];
  const reach = (toX: number, toY: number) => {
    const middle = (x + toX) / 2;
    parts.push(`C${middle} ${y} ${middle} ${toY} ${toX} ${toY}`);
    [x, y] = [toX, toY];
  };
  for (const each of link.bends) {
    reach(left(each.column), each.top + each.anchor);
    x += WIDTH;
    parts.push(`H${x}`);
  }
  reach(left(to.column), to.top + port);
  return parts.join("");
}

export function draw(nodes: readonly Node[]): Drawing {
  const undos = new Map(nodes.flatMap((node) => (node.undoes ? [[node.undoes, node.name] as const] : [])));
  const steps = nodes.filter((node) => !node.undoes);
  const links = linksOf(steps);
  const depths = depthsOf(steps, links);
  const columns: Item[][] = Array.from({ length: Math.max(0, ...depths.values()) + 1 }, () => []);
  const items = new Map<string, Item>();
  for (const { name } of steps) {
    const column = depths.get(name)!;
    const height = undos.has(name) ? 2 * HEIGHT + ABOVE_UNDO : HEIGHT;
    const item = itemOf(name, column, height, HEIGHT / 2);
    items.set(name, item);
    columns[column]!.push(item);
  }
  bend(links, items, columns);
  arrange(columns);
  const all = columns.flat();
  const highest = all.reduce((least, item) => Math.min(least, item.top), Infinity);
  for (const item of all) item.top += PADDING - highest;

  const placed: Placed[] = [];
  const edges: Edge[] = links.map((link) => ({
    from: link.from,
    to: link.to,
    way: link.way,
    path: pathOf(link, items.get(link.from)!, items.get(link.to)!),
  }));
  for (const item of all) {
    if (item.name === null) continue;
    const [x, y] = [left(item.column), item.top];
    placed.push({ name: item.name, column: item.column, x, y });
    const undo = undos.get(item.name);
    if (undo === undefined) continue;
    placed.push({ name: undo, column: item.column, x, y: y + HEIGHT + ABOVE_UNDO });
    const path = `M${x + WIDTH / 2} ${y + HEIGHT}V${y + HEIGHT + ABOVE_UNDO}`;
    edges.push({ from: item.name, to: undo, way: "undo", path });
  }
  return {
    width: left(columns.length - 1) + WIDTH + PADDING,
    height: all.reduce((most, item) => Math.max(most, item.top + item.height), 0) + PADDING,
    nodes: placed,
    edges,
  };
}
