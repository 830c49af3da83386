import { expect, test } from "vitest";

import { isDark } from "./theme";

test.each([
  [null, true, true],
  [null, false, false],
  ["system", true, true],
  ["light", true, false],
  ["dark", false, true],
])("preference %s on a dark system (%s) is dark: %s", (preference, isSystemDark, expected) => {
  expect(isDark(preference, isSystemDark)).toBe(expected);
});
