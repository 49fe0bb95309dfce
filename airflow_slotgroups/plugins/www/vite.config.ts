import { defineConfig } from "vitest/config";

/** What Airflow's page offers as globals; the bundle brings none of it. */
const HOST = {
  "@chakra-ui/react": "ChakraUI",
  react: "React",
  "react-dom": "ReactDOM",
  "react-router-dom": "ReactRouterDOM",
  "react/jsx-runtime": "ReactJSXRuntime",
};

export default defineConfig(({ mode }) => ({
  build: {
    chunkSizeWarningLimit: 150,
    emptyOutDir: true,
    lib: {
      entry: "src/main.tsx",
      fileName: () => "slotgroups.js",
      formats: ["iife"],
      name: "AirflowSlotGroups",
    },
    rollupOptions: {
      external: Object.keys(HOST),
      output: { banner: "/*! Apache-2.0. Contains uPlot, (c) 2022 Leon Sorokin, MIT. */", globals: HOST },
    },
    target: "es2022",
  },
  ...(mode === "production" ? { define: { "process.env.NODE_ENV": JSON.stringify("production") } } : {}),
  esbuild: { jsx: "automatic", jsxDev: false },
  test: {
    environment: "jsdom",
    include: ["test/**/*.test.{ts,tsx}"],
    setupFiles: ["test/setup.ts"],
  },
}));
