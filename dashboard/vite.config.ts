import tailwindcss from "@tailwindcss/vite";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vite";

export default defineConfig({
  // Relative URLs, because the server may run under a path prefix.
  base: "./",
  plugins: [vue(), tailwindcss()],
  build: {
    outDir: "../src/queen/server/dashboard",
    emptyOutDir: true,
    // The Content-Security-Policy forbids inlined assets.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    rolldownOptions: {
      output: {
        // Shared code is one file instead of one per module, so that a page needs few requests.
        // Charts, dialogs and menus are loaded on first use.
        codeSplitting: {
          groups: [
            { name: "charts", test: /uplot|LineChart|ChartGrid/, priority: 2, includeDependenciesRecursively: false },
            { name: "overlays", test: /reka-ui|floating-ui|aria-hidden|ModalDialog|DropMenu/, priority: 2, includeDependenciesRecursively: false },
            { name: "common", minShareCount: 2 },
          ],
        },
      },
    },
  },
  server: {
    proxy: {
      "/api": "http://localhost:6632",
      "/ws": { target: "ws://localhost:6632", ws: true },
    },
  },
});
