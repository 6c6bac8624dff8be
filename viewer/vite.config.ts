import { defineConfig } from "vite";

// Relative addresses: the page works below any stage and any friendly address. Flat: one route serves every file.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../chalicelib/viewer",
    emptyOutDir: true,
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: false,
    sourcemap: false,
    target: "es2022",
    reportCompressedSize: false,
  },
});
