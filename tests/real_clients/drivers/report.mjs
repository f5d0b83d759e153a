// What one client saw, as one JSON object on stdout: report.py for Node.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

export const job = JSON.parse(process.argv[2]);
export const ACCEPTED = { name: "Ada" };

// The packages are installed where the runner says, not beside this file.
const modules = process.env.REAL_CLIENTS_MODULES;
const require = createRequire(join(modules, "here.js"));
export const load = (name) => import(pathToFileURL(esm(name)).href);

function esm(name) {
  const [scope, pack, ...rest] = name.split("/");
  const home = join(modules, "node_modules", scope, pack);
  const exported = JSON.parse(readFileSync(join(home, "package.json"))).exports ?? {};
  const entry = exported[rest.length ? `./${rest.join("/")}` : "."]?.import;
  const file = typeof entry === "string" ? entry : entry?.default;
  return file ? join(home, file) : require.resolve(name);
}

export class Report {
  constructor(name) {
    const home = join(modules, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(home, "package.json")));
    this.seen = { package: `${name} ${version}`, steps: {} };
    this.now = {};
  }

  async step(name, act) {
    this.now = this.seen.steps[name] = {};
    try {
      const result = await act();
      if (result !== undefined) this.seen.steps[name].result = result;
    } catch (error) {
      const { code, data } = error;
      this.seen.steps[name].raised = { type: error.constructor.name, message: error.message, code, data };
    }
  }

  note(kind, what) {
    (this.now[kind] ??= []).push(what);
  }

  tell() {
    process.stdout.write(JSON.stringify(this.seen) + "\n");
  }
}

export const progressed = (report) => ({
  onprogress: ({ progress, total, message }) => report.note("progress", [progress, total, message ?? null]),
});
