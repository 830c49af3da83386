/** Signs this tab out when its user signs out in another tab. */

import { prefix } from "../lib/pageConfig";

/** Deletes this tab's token if it belongs to the user with this name. */
export async function leaveWith(name: string): Promise<void> {
  const token = sessionStorage.getItem("queen.token");
  if (token === null || !(await belongsTo(name, token))) return;
  sessionStorage.removeItem("queen.token");
  sessionStorage.removeItem("queen.grant");
  // Swagger UI has a copy in memory.
  location.reload();
}

/** True also if the server rejects the token or is unavailable: a tab must not stay signed in by mistake. */
async function belongsTo(name: string, token: string): Promise<boolean> {
  try {
    const response = await fetch(`${prefix}/api/v1/auth/me`, { headers: { Authorization: `Bearer ${token}` } });
    return !response.ok || ((await response.json()) as { name: string }).name === name;
  } catch {
    return true;
  }
}
