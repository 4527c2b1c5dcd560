// SPDX-License-Identifier: Apache-2.0
// A cayd for clients made for E2B: with the base that the recipe `debian` makes, keys of two owners,
// and every case run with both versions of the SDK; with E2B_TEST_TLS=1, by TLS and host names. Where no Debian can be had, a small base takes its
// place, and a skipped case says so.
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync, chmodSync, chownSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { named } from "./e2b_names.mjs";
import { Daemon, Skip, assert, caydPath, groupName, makeKey, putRemoteBefore, removeGroup, test, unstarted } from "./harness.mjs";

const APPLETS = `[ awk base64 cat chmod cp cut date dd df echo env false find grep head hostname httpd id kill ln
ls mkdir mv nc printf ps pwd readlink rm rmdir sed seq sh sleep sort stat tail tee test touch tr true truncate
tty uname wc wget which whoami yes`.split(/\s+/);

/** A root of a few MiB: busybox, bash and other programs with their libraries. */
function makeRoot(root, programs) {
  for (const name of ["usr/bin", "usr/lib", "etc", "dev", "proc", "sys", "root", "home/user", "workspace", "run", "tmp"])
    mkdirSync(join(root, name), { recursive: true });
  for (const name of ["bin", "lib"]) symlinkSync(`usr/${name}`, join(root, name));
  chmodSync(join(root, "tmp"), 0o1777);
  cpSync(realpathSync("/bin/busybox"), join(root, "usr/bin/busybox"));
  for (const name of APPLETS) symlinkSync("busybox", join(root, "usr/bin", name));
  for (const [name, program] of Object.entries({ bash: realpathSync("/bin/bash"), ...programs })) {
    cpSync(program, join(root, "usr/bin", name));
    for (const [path] of execFileSync("ldd", [program], { encoding: "utf8" }).matchAll(/(?<= )\/\S+|^\s\/\S+/gm)) {
      mkdirSync(dirname(join(root, path.trim())), { recursive: true });
      cpSync(realpathSync(path.trim()), join(root, path.trim()));
    }
  }
  writeFileSync(join(root, "etc/passwd"),
    "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n");
  writeFileSync(join(root, "etc/group"), "root:x:0:\nuser:x:1000:\n");
  for (const name of ["home/user", "workspace"]) chownSync(join(root, name), 1000, 1000);
}

async function rpc(socket, method, body, type = "application/json") {
  const { stdout } = await promisify(execFile)("curl", [
    "-sS", "--fail-with-body", "--unix-socket", socket, "-H", `content-type: ${type}`,
    "--data-binary", body, `http://localhost/cay.v1.${method}`,
  ]);
  return stdout;
}

/** One message of a stream. */
export function envelope(message, flags = 0) {
  const body = Buffer.from(typeof message === "string" ? message : JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** The error, which must be of that kind. */
export async function fails(kind, promise) {
  try {
    await promise;
  } catch (error) {
    assert(error instanceof kind, `wanted ${kind.name}, got ${error}`);
    return error;
  }
  throw new Error("it went well");
}

/** Puts the data directory of a cayd that has built the base at `data`; why not, where it cannot be. */
function takeBuilt(recipe, data) {
  const program = fileURLToPath(new URL("debian_base.py", import.meta.url));
  const { status, stdout, stderr } = spawnSync("/usr/bin/python3", [program, caydPath, recipe, data], { encoding: "utf8" });
  return status === 0 ? "" : stdout.trim() || `${recipe}: ${stderr.trim().split("\n").at(-1)}`;
}

async function importSmall(daemon, socket, programs) {
  const root = join(daemon.folder, "root");
  makeRoot(root, programs);
  const message = envelope({ options: { name: "small", format: "BASE_FORMAT_DIRECTORY", hostPath: root } });
  writeFileSync(join(daemon.folder, "import"), message);
  await rpc(socket, "BaseService/ImportBase", `@${join(daemon.folder, "import")}`, "application/connect+json");
  rmSync(root, { recursive: true });
}

/** A cayd that serves E2B's clients; the template `base` stands for its base, which is what `recipe` makes. */
export async function startE2b({ flags = [], programs = {}, listens = true, recipe = "debian" } = {}) {
  const stands = `the sandboxes stand on the recipe ${recipe}`;
  if (unstarted) {
    test(stands, () => {});
    return unstarted;
  }
  if (!caydPath || !existsSync(caydPath)) throw new Skip("cayd is not built");
  if (process.getuid() !== 0) throw new Skip("needs root");
  if (!existsSync("/bin/busybox")) throw new Skip("needs a static busybox (package busybox-static)");
  const names = listens && process.env.E2B_TEST_TLS ? await named() : undefined;
  const folder = mkdtempSync(join(tmpdir(), "cay-e2b-"));
  const group = groupName();
  const without = takeBuilt(recipe, join(folder, "data"));
  const base = without ? "small" : recipe;
  const daemon = new Daemon(caydPath, [
    "--data", join(folder, "data"), "--run", join(folder, "run"), ...(names?.flags ?? (listens ? ["--listen", "127.0.0.1:0"] : [])),
    "--e2b-template", base, "--default-base", base, "--destroy-on-exit", "--cgroup-parent", group, ...(process.env.E2B_TEST_VERBOSE ? [] : ["--log-level", "error"]), ...flags,
  ]);
  Object.assign(daemon, { folder, base, isDebian: !without });
  daemon.ended.then(() => { rmSync(folder, { recursive: true, force: true }); removeGroup(group); });
  await daemon.ready();
  const socket = join(folder, "run", "cayd.sock");
  daemon.call = async (method, message) => JSON.parse(await rpc(socket, method, JSON.stringify(message)));
  daemon.cay = (...args) => promisify(execFile)(join(dirname(caydPath), "cay"), ["--url", `unix:${socket}`, ...args]);
  if (process.env.TEST_REMOTE && listens)
    await putRemoteBefore(daemon, `unix:${socket}`, await makeKey(socket), ["--e2b-template", base, "--default-base", base]);
  if (without) await importSmall(daemon, socket, programs);
  test(stands, () => { if (without) throw new Skip(without); });
  const key = async (owner) =>
    (await daemon.call("KeyService/CreateKey", { owner, role: "KEY_ROLE_USER", e2b: true })).secret;
  daemon.key = await key("alice");
  daemon.otherKey = await key("bob");
  /** What every call of the SDK is told. */
  if (names) daemon.url = `https://api.${names.domain}`;
  daemon.options = { apiKey: daemon.key, ...(names ? { domain: names.domain } : { apiUrl: daemon.url, sandboxUrl: daemon.url }) };
  return daemon;
}

/** Sandboxes have a kernel of their own. */
export const IN_GVISOR = process.env.CAY_RUNTIME === "gvisor";

/** The SDKs by version. */
export async function sdks() {
  return { "2.51": await import("e2b"), "2.45": await import("e2b-2-45") };
}

/** Registers the case once per version of the SDK. */
export function testEach(versions, name, run) {
  for (const [version, sdk] of Object.entries(versions)) test(`${name} (e2b ${version})`, () => run(sdk, version));
}

/** Runs with a fresh sandbox, and kills it. */
export async function withSandbox(sdk, daemon, options, run) {
  const { template = "base", ...rest } = options;
  const sandbox = await sdk.Sandbox.create(template, { ...daemon.options, ...rest });
  try {
    return await run(sandbox);
  } finally {
    await sandbox.kill().catch(() => {});
  }
}

/** A plain request to the control plane. */
export async function api(daemon, method, path, body, headers = {}) {
  const answer = await fetch(daemon.url + path, {
    method,
    headers: { "x-api-key": daemon.key, "content-type": "application/json", ...headers },
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  let json;
  try { json = JSON.parse(text); } catch { json = undefined; }
  return { status: answer.status, json, text, headers: answer.headers };
}

/** A plain request to a port of a sandbox. */
export function inside(daemon, id, port, path, init = {}) {
  return fetch(daemon.url + path, {
    ...init,
    headers: { "e2b-sandbox-id": id, "e2b-sandbox-port": String(port), ...init.headers },
  });
}

/** A connection of one's own to where a URL leads. */
export function connectTo(url) {
  const { protocol, hostname, port } = new URL(url);
  const where = { host: hostname, port: Number(port), servername: hostname };
  return protocol === "https:" ? tls.connect(where) : net.connect(where);
}

/** A tool, by the daemon's own contract. */
export async function tool(daemon, sandbox, toolName, params) {
  const { result } = await daemon.call("SandboxService/ExecuteTool", { sessionId: sandbox.sandboxId, call: { toolName, params } });
  return result;
}

/** Starts a program in a sandbox and waits until it listens; returns its port. */
export async function serve(daemon, sandbox, code, port) {
  if (daemon.isDebian) await daemon.cay("cp", "--user", "root", process.execPath, `${sandbox.sandboxId}:/usr/bin/node`);
  const { process: { id } } = await daemon.call("ProcessService/LaunchProcess",
    { sessionId: sandbox.sandboxId, spec: { argv: ["/usr/bin/node", "-e", code] } });
  await daemon.call("ProcessService/ExposePort",
    { sessionId: sandbox.sandboxId, processId: id, port: { port, waitListening: "25s" } });
  return id;
}
