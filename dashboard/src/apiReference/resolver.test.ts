import { describe, expect, it } from "vitest";

import { resolvePart } from "./resolver";

const DOCUMENT = {
  paths: { "/push": { post: { body: { $ref: "#/components/schemas/Push", description: "What to push." } } } },
  components: {
    schemas: {
      Push: { description: "A push.", properties: { items: { type: "array", items: { $ref: "#/components/schemas/Item" } } } },
      Item: { type: "object" },
      Tree: { properties: { left: { $ref: "#/components/schemas/Tree" } } },
      "a/b~c": { type: "string" },
    },
    odd: { $ref: "#/components/schemas/a~1b~0c" },
    broken: { $ref: "#/components/schemas/Missing" },
    securitySchemes: { bearer: { type: "http" } },
  },
};

describe("the resolver of the API reference", () => {
  it("replaces nested references, and prefers the text beside a reference", () => {
    expect(resolvePart(DOCUMENT, ["paths", "/push", "post"])).toEqual({
      body: {
        description: "What to push.",
        properties: { items: { type: "array", items: { type: "object" } } },
      },
    });
  });

  it("keeps the reference of a type to itself", () => {
    expect(resolvePart(DOCUMENT, ["components", "schemas", "Tree", "properties", "left"])).toEqual({
      properties: { left: { $ref: "#/components/schemas/Tree" } },
    });
  });

  it("decodes names in references", () => {
    expect(resolvePart(DOCUMENT, ["components", "odd"])).toEqual({ type: "string" });
  });

  it("fails for a reference without target", () => {
    expect(() => resolvePart(DOCUMENT, ["components", "broken"])).toThrow("no Missing");
  });
});
