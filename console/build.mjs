// Builds src/ into the package that serves it: `node build.mjs` once, `node build.mjs --watch` while you edit.
//
// manifest.json holds a hash of every source, so that a test notices a forgotten build on a machine without Node.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.env.CONSOLE_TARGET ?? join(here, "..", "src", "ottla", "console", "static");
const sources = join(here, "src");

const options = {
  entryPoints: { app: join(sources, "main.ts"), style: join(sources, "styles", "all.css") },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox120", "safari17.5"],
  loader: { ".woff2": "file" },
  assetNames: "[name]",
  legalComments: "linked",
  logLevel: "warning",
};

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)]))
    .sort();
}

function manifest() {
  const inputs = [...filesBelow(sources), join(here, "package-lock.json"), join(here, "build.mjs")];
  const hash = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");
  return Object.fromEntries(inputs.map((path) => [relative(here, path), hash(path)]));
}

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
copyFileSync(join(sources, "index.html"), join(target, "index.html"));
copyFileSync(join(sources, "icon.svg"), join(target, "icon.svg"));
if (process.argv.includes("--watch")) {
  await (await context(options)).watch();
} else {
  await build(options);
  writeFileSync(join(target, "manifest.json"), JSON.stringify(manifest(), null, 1) + "\n");
}
