// Builds the page: one HTML file with everything inside, and the licences of what is inside.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

/** Ends the page with the licences of the libraries that went into it. */
function licences(): Plugin {
  return {
    name: "licences",
    enforce: "post",
    generateBundle(_, bundle) {
      const packages = new Set<string>();
      for (const id of this.getModuleIds()) {
        const path = /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
        if (path && existsSync(join(path, "package.json"))) packages.add(path);
      }
      const texts = [...packages].sort().map((path) => {
        const about = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
        const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((name) => join(path, name));
        const found = file.find((name) => existsSync(name));
        if (!found) throw new Error(`${about.name} has no licence file`);
        return { name: `${about.name} ${about.version}`, text: readFileSync(found, "utf8").trim() };
      });
      // The same text is said once, with the names of all that have it.
      const names = new Map<string, string[]>();
      for (const { name, text } of texts) names.set(text, [...(names.get(text) ?? []), name]);
      const all = [...names]
        .map(([text, of]) => `${of.join(", ")}\n\n${text}`)
        .join("\n\n* * *\n\n");
      for (const file of Object.values(bundle)) {
        if (file.type !== "asset" || !file.fileName.endsWith(".html")) continue;
        file.source = `${file.source}\n<!--\nThis page contains:\n\n${all.replaceAll("-->", "- ->")}\n-->\n`;
      }
    },
  };
}

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true }), licences()],
  build: { target: "es2022", reportCompressedSize: false },
});
