/** The pages of the menu, the shortcuts and the command palette. */

import {
  Activity,
  BriefcaseBusiness,
  ChartLine,
  Inbox,
  LayoutDashboard,
  Mail,
  Server,
  Skull,
  Users,
  Waypoints,
  Workflow,
} from "@lucide/vue";

import type { Permission } from "./stores/session";

export interface Entry {
  name: string;
  label: string;
  icon: typeof Inbox;
  /** Pressed after `g`. */
  key: string;
  needs: Permission;
  /** Routes that highlight this entry too. */
  below?: readonly string[];
}

export const PAGES: readonly Entry[] = [
  { name: "overview", label: "Overview", icon: LayoutDashboard, key: "o", needs: "browse" },
  { name: "queues", label: "Queues", icon: Inbox, key: "q", needs: "browse", below: ["queue"] },
  { name: "messages", label: "Messages", icon: Mail, key: "m", needs: "browse", below: ["message", "compare", "tail"] },
  { name: "dead-letters", label: "Dead letters", icon: Skull, key: "d", needs: "browse" },
  { name: "groups", label: "Groups", icon: Users, key: "g", needs: "browse", below: ["group"] },
  { name: "jobs", label: "Jobs", icon: BriefcaseBusiness, key: "j", needs: "browse", below: ["job"] },
  { name: "workflows", label: "Workflows", icon: Waypoints, key: "w", needs: "browse", below: ["workflow"] },
  { name: "traces", label: "Traces", icon: Activity, key: "t", needs: "browse", below: ["trace"] },
  { name: "analytics", label: "Analytics", icon: ChartLine, key: "a", needs: "browse" },
  { name: "pipelines", label: "Pipelines", icon: Workflow, key: "p", needs: "browse" },
  { name: "system", label: "System", icon: Server, key: "s", needs: "admin" },
];
