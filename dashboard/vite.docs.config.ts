/** The build of the API reference: apart from the dashboard's, so that they share no chunk. */

import { defineConfig, type Plugin } from "vite";

/** Swagger UI's icons are `data:` URLs, which the Content-Security-Policy forbids. style.css has its own. */
const withoutDataUrls: Plugin = {
  name: "without-data-urls",
  enforce: "pre",
  transform: {
    filter: { id: /swagger-ui\.css$/ },
    handler: (code) => code.replaceAll(/url\(("data:(\\.|[^"\\])*"|data:[^")]*)\)/g, "none"),
  },
};

/** Apache-2.0 requires that copies of Swagger UI contain its license and notice. */
const withLicenses: Plugin = {
  name: "with-licenses",
  async generateBundle() {
    const texts: string[] = [];
    for (const name of ["NOTICE", "LICENSE", "swagger-ui-es-bundle.js.LICENSE.txt"])
      texts.push(await this.fs.readFile(`vendor/swagger-ui/${name}`, { encoding: "utf8" }));
    this.emitFile({ type: "asset", fileName: "docs-licenses.txt", source: texts.join("\n\n") });
  },
};

export default defineConfig({
  base: "./",
  // The first build copies these files.
  publicDir: false,
  plugins: [withoutDataUrls, withLicenses],
  build: {
    outDir: "../src/queen/server/dashboard",
    // The dashboard is there already.
    emptyOutDir: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 2_000,
    rolldownOptions: { input: "docs.html" },
  },
});
