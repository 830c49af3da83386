import tailwindcss from "@tailwindcss/vite";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vite";

export default defineConfig({
  // The server says where the files are: it may stand behind a prefix.
  base: "./",
  plugins: [vue(), tailwindcss()],
  build: {
    outDir: "../src/queen/server/dashboard",
    emptyOutDir: true,
    // The policy allows files of ours alone: nothing inside others.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    rolldownOptions: {
      output: {
        // What several pages use is one file, not a file each: a browser asks for it once, and for little else.
        // What charts, dialogs and menus are made of is loaded with the first of them.
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
