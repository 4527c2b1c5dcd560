// SPDX-License-Identifier: Apache-2.0
// Start a daemon, run cases, report in TAP. Arguments of every program: echod, its descriptor set,
// cayd, the contract's descriptor set.
import { spawn, execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

export const [echodPath, echoSetPath, caydPath, contractPath] = process.argv.slice(2);
export const echoSet = () => readFileSync(echoSetPath);
export const contractSet = () => readFileSync(contractPath);

const cases = [];
const CASE_MS = 60_000; // a machine under load is slow, not wrong

export class Skip extends Error {}

/** Register a case; `name` is a sentence. It makes what it needs: it may be run alone, and after any other. */
export function test(name, run, limitMs = CASE_MS) {
  cases.push({ name, run, limitMs });
}

/** The sentence as a word, by which the runner (tools/run-tests) names a case. */
const shortName = ({ name }) => name.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");

/** The cases that the runner chose, in its order; all, when it chose none. */
function chosen() {
  const names = (process.env.TEST_CASES ?? "").split(" ").filter(Boolean);
  if (names.length === 0) return cases;
  return names.map((name) => {
    const found = cases.find((each) => shortName(each) === name);
    if (!found) throw new Error(`there is no case ${name}`);
    return found;
  });
}

export function assert(isTrue, ...what) {
  if (!isTrue) {
    const show = (x) => (typeof x === "string" ? x : JSON.stringify(x, printable) ?? String(x));
    throw new Error(`not so: ${what.map(show).join(" ")}`);
  }
}

function printable(_key, value) {
  return typeof value === "bigint" ? `${value}n` : value;
}

export function equal(actual, expected, what = "") {
  const [a, b] = [JSON.stringify(actual, printable), JSON.stringify(expected, printable)];
  if (a !== b) throw new Error(`${what} is ${a}, expected ${b}`);
}

export async function throws(promise, check) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    check(error);
    return;
  }
  throw new Error(`no error but ${JSON.stringify(value, printable)}`);
}

export async function eventually(condition, what, patienceMs = 10_000) {
  const until = Date.now() + patienceMs;
  while (!(await condition())) {
    if (Date.now() > until) throw new Error(`still not so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const CGROUPS = "/sys/fs/cgroup";
let groups = 0;

/** A name for a daemon's control groups, by which the runner knows whose they are. */
export function groupName() {
  return `${process.env.CAY_TEST_RUN ?? "cayclients"}-${process.pid}-${++groups}`;
}

/** How far the resident memory of cayd may grow, in bytes: sanitizers need several times as much. */
export function growthMax(mebibytes) {
  const code = readFileSync(caydPath);
  return mebibytes * (1 << 20) * (code.includes("__asan_init") || code.includes("__tsan_init") ? 5 : 1);
}

/** After the end of the daemon. A group that is not empty stays, for the runner to find. */
export function removeGroup(name) {
  for (const folder of [CGROUPS, ...readdirSync(CGROUPS).map((each) => join(CGROUPS, each))]) {
    try { rmdirSync(join(folder, name)); } catch { /* not there, or in use */ }
  }
}

export class Daemon {
  constructor(path, flags, env = {}) {
    this.process = spawn(path, flags, {
      stdio: ["ignore", "pipe", "inherit"],
      // What is freed is kept for a while under AddressSanitizer; tests measure the daemon's memory.
      env: {
        UBSAN_OPTIONS: "halt_on_error=1:print_stacktrace=1", ...process.env, ...env,
        ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ""}:quarantine_size_mb=4`.replace(/^:/, ""),
      },
    });
    this.ended = once(this.process, "exit");
    // Whatever ends the test must not leave its daemon behind.
    process.once("exit", () => this.process.kill("SIGKILL"));
  }

  async ready() {
    for await (const line of createInterface({ input: this.process.stdout })) {
      const match = / ready on (?:https?:\/\/)?(\S+)$/.exec(line);
      if (match) {
        this.url = `http://${match[1]}`;
        return this;
      }
    }
    throw new Error("the daemon ended before it was ready");
  }

  async stop() {
    this.process.kill("SIGTERM");
    const [status, signal] = await this.ended;
    return signal ?? status;
  }
}

/** What stands for a daemon when only the cases are to be listed. */
export const unstarted = process.env.TEST_LIST &&
  { url: "http://127.0.0.1:1", key: "none", options: {}, folder: "/nonexistent", isDebian: true, stop: async () => 0 };

const remotePath = process.env.TEST_REMOTE;

/** With TEST_REMOTE, puts a cay-remote before the daemon: its address is the remote's from now on. */
export async function putRemoteBefore(daemon, where, key, flags) {
  if (!remotePath) return daemon;
  const remote = await new Daemon(remotePath, ["--behind", where, "--listen", "127.0.0.1:0", ...flags], { CAY_API_KEY: key }).ready();
  const stop = daemon.stop.bind(daemon);
  daemon.url = remote.url;
  daemon.stop = async () => {
    const status = await remote.stop();
    return (await stop()) || status;
  };
  return daemon;
}

/** The secret of a new key, made by the Unix socket; of a trusted one by default. */
export async function makeKey(socket, fields = { owner: "gateway", role: "KEY_ROLE_ADMIN", mayVouch: true }) {
  const { stdout } = await promisify(execFile)("curl", [
    "-sS", "--fail-with-body", "--unix-socket", socket, "-H", "content-type: application/json",
    "-d", JSON.stringify(fields), "http://localhost/cay.v1.KeyService/CreateKey",
  ]);
  return JSON.parse(stdout).secret;
}

export async function startEchod(...flags) {
  if (unstarted) return unstarted;
  const daemon = await new Daemon(echodPath, ["--listen", "127.0.0.1:0", ...flags]).ready();
  return putRemoteBefore(daemon, daemon.url, "gateway", ["--echo", ...flags]);
}

/** A cayd with a key, or Skip where it is not built. */
export async function startCayd() {
  if (unstarted) return unstarted;
  if (!caydPath || !existsSync(caydPath)) throw new Skip("cayd is not built");
  const folder = mkdtempSync(join(tmpdir(), "c"));
  const group = groupName();
  const daemon = new Daemon(caydPath, [
    "--data", join(folder, "data"), "--run", join(folder, "run"), "--listen", "127.0.0.1:0", "--cgroup-parent", group,
  ]);
  daemon.ended.then(() => { rmSync(folder, { recursive: true, force: true }); removeGroup(group); });
  await daemon.ready();
  const socket = join(folder, "run", "cayd.sock");
  daemon.key = await makeKey(socket, { owner: "tester", role: "KEY_ROLE_ADMIN" });
  return putRemoteBefore(daemon, `unix:${socket}`, await makeKey(socket), []);
}

function withLimit(promise, limitMs) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${limitMs} ms`)), limitMs);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/** Run the cases, print TAP, stop the daemons and exit. */
export async function run(...daemons) {
  const stop = async () => {
    for (const daemon of daemons.filter(Boolean)) equal(await daemon.stop(), 0, "the status");
  };
  if (process.env.TEST_LIST) {
    for (const each of cases) console.log(`case ${shortName(each)}\t${each.name}`);
    await stop();
    process.exit(0);
  }
  const running = [...chosen(), { name: "the daemons end with status 0", run: stop, limitMs: CASE_MS }];
  console.log(`1..${running.length}`);
  let failed = 0;
  for (const [index, { name, run: body, limitMs }] of running.entries()) {
    const started = Date.now();
    try {
      await withLimit(body(), limitMs);
      console.log(`ok ${index + 1} - ${name}`);
    } catch (error) {
      if (error instanceof Skip) {
        console.log(`ok ${index + 1} - ${name} # SKIP ${error.message}`);
        continue;
      }
      failed++;
      console.log(`not ok ${index + 1} - ${name}`);
      console.log(String(error.stack ?? error).replace(/^/gm, "# "));
    }
    const tookMs = Date.now() - started;
    if (tookMs > 1000) console.log(`# took ${tookMs} ms`);
  }
  process.exit(failed ? 1 : 0);
}
