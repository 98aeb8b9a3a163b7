/* Bundles d3 for the page, with its licences, and records the hash: run by `make vendor`. */
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { buildSync } from "esbuild";

const here = new URL("./", import.meta.url).pathname;
const folder = here + "../../src/hexveil/report/assets/vendor/";
const read = (file) => readFileSync(`${here}node_modules/${file}`, "utf8");
const names = readdirSync(here + "node_modules").filter((name) => name.startsWith("d3-")).sort();

/* Modules with the same licence text are listed above it. Pages are copies, too: each carries it. */
const licences = new Map();
for (const name of names) {
  const text = read(name + "/LICENSE").trim();
  licences.set(text, [...(licences.get(text) ?? []), `${name} ${JSON.parse(read(name + "/package.json")).version}`]);
}
const notice = [...licences].map(([text, modules]) => `${modules.join("\n")}\n\n${text}\n`).join("\n----\n\n");
if (notice.includes("*/") || notice.includes("<" + "/")) throw new Error("a licence would end the script");

const built = buildSync({
  stdin: {
    contents: 'export { zoom, zoomIdentity } from "d3-zoom"; export { select } from "d3-selection";',
    resolveDir: here,
  },
  bundle: true, minify: true, write: false, format: "iife", globalName: "d3", target: "es2022",
  legalComments: "none", banner: { js: `/*\n${notice}*/` },
});
const script = built.outputFiles[0].text.trim() + "\n";
writeFileSync(folder + "d3.min.js", script);
writeFileSync(folder + "d3.LICENSE.txt", notice);
writeFileSync(folder + "d3.min.js.sha256", createHash("sha256").update(script).digest("hex") + "\n");
console.log(`d3.min.js: ${script.length} bytes, ${names.length} modules`);
