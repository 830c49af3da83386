/** Texts of the system page: processes, database, settings, API keys, audit log. */

import { plural } from "../lib/format";

export const texts = {
  sections: "System sections",
  backgroundTasks: "Background tasks",
  postgresql: "PostgreSQL",
  deadRows: "Many dead rows. Check whether an old transaction blocks autovacuum.",
  noTransaction: "No open transactions.",
  horizon: (holder: string) => `Pipelines, retention and the outbox wait for ${holder}.`,
  unknown: "Unknown.",
  noSetting: "No matching settings",
  noSettingHelp: "No setting name contains this text.",
  noRecord: "No matching records",
  noRecordHelp: "The audit log records changes and revealed payloads.",
} as const;

export const bufferTexts = {
  off: "off (FILE_BUFFER_DIR is not set)",
  flush: "Flush buffer",
  flushed: "The buffered messages were stored.",
  retry: "Retry failed files",
  retried: (many: number) => `Retrying ${plural(many, "message")}.`,
  connections: (used: number, all: number, waiting: number | null) => `${used} of ${all} in use, ${waiting} waiting`,
} as const;

export const maintenanceTexts = {
  scope: "Applies to all processes that use this database.",
  push: "Pushes go to the file buffer and are stored when maintenance ends. Without a file buffer, they are rejected.",
  pop: "Pops return no messages. This includes pops that are already waiting.",
  end: "Normal operation resumes.",
} as const;

export const keyTexts = {
  anonymous: "This server does not authenticate callers. To require API keys, set",
  empty: "No API keys",
  emptyHelp: "An API key lets a program or a person call this server, with a role and for all or some queues.",
  showRevoked: "Show revoked keys",
  create: "Create API key",
  createDescription: "For a program, or for a person who signs in here.",
  rotate: "Rotate API key",
  rotateDescription: (name: string, isOwn: boolean) =>
    `${name} gets a new secret, which is shown once.${isOwn ? " This tab switches to it." : ""}`,
  revoke: "Revoke API key",
  revokeDescription: (name: string, isOwn: boolean) =>
    `Requests with ${name} are rejected within a second, permanently.${isOwn ? " You are signed in with this key and will be signed out." : ""}`,
  auditOf: (name: string) => `Audit log of ${name}`,
  thisTab: "used in this tab",
  grace: "Keep accepting the old secret",
  secret: (name: string) => `Secret of ${name}`,
  secretDescription: "It is shown only once. The server stores only its hash.",
  allQueues: "All queues. Add a line to limit the key.",
  someQueues: "Queues that match any line. Use * as a wildcard.",
  limit: "Limit to queues",
} as const;

/** How long the old secret stays valid after a rotation, in seconds. */
export const GRACES = [
  [0, "no"],
  [300, "for 5 minutes"],
  [3_600, "for 1 hour"],
  [86_400, "for 1 day"],
  [604_800, "for 7 days"],
] as const;

export const ROLES = [
  ["read-only", "view everything"],
  ["read-write", "push, consume, configure, operate"],
  ["write-only", "push only"],
  ["admin", "everything"],
] as const;
