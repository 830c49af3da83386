/** Whether to use the dark theme, from the dashboard's preference and the system's. */
export function isDark(preference: string | null, isSystemDark: boolean): boolean {
  return preference === "dark" || (preference !== "light" && isSystemDark);
}
