// SPDX-License-Identifier: Apache-2.0
// Calls and options of E2B's SDKs that no other program here has: what an SDK offers must work, or
// be refused in so many words (docs/e2b.md).
import { existsSync } from "node:fs";
import { Skip, assert, equal, eventually, run, test } from "./harness.mjs";
import { api, fails, inside, sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";

const GIT = "/usr/bin/git";
const hasGit = existsSync(GIT);
const daemon = await startE2b({ programs: hasGit ? { git: GIT, "git-upload-pack": GIT, "git-receive-pack": GIT } : {} });
const versions = await sdks();
const options = { ...daemon.options, timeoutMs: 60_000 };
const HOME = ["", "home", "user"].join("/");
const ROOT = ["", "root"].join("/");

async function all(pages) {
  const items = [];
  while (pages.hasNext) items.push(...(await pages.nextItems()));
  return items;
}

testEach(versions, "static calls do what those of an instance do", async (sdk) => {
  const { Sandbox } = sdk;
  await withSandbox(sdk, daemon, { timeoutMs: 60_000, metadata: { a: "1" } }, async (sandbox) => {
    const id = sandbox.sandboxId;
    equal((await Sandbox.getFullInfo(id, options)).sandboxId, id);
    await Sandbox.setTimeout(id, 120_000, options);
    assert((await Sandbox.getInfo(id, options)).endAt - Date.now() > 100_000, "its timeout");
    equal((await Sandbox.getMetrics(id, options)).length, 1);
    await Sandbox.updateNetwork(id, { allowInternetAccess: false }, options);
    const named = await Sandbox.createSnapshot(id, { ...options, name: "by-static" });
    equal((await all(Sandbox.listSnapshots({ ...options, sandboxId: id }))).map((each) => each.snapshotId), [named.snapshotId]);
    equal((await all(sandbox.listSnapshots({ limit: 1 }))).length, 1, "of the instance");
    equal(await Sandbox.deleteSnapshot(named.snapshotId, options), true);
    equal(await Sandbox.betaPause(id, options), true);
    equal(await sandbox.betaPause(), false, "already");
    equal((await Sandbox.connect(id, options)).sandboxId, id);
    const forks = await Sandbox.fork(id, { ...options, count: 2 });
    equal(forks.map((fork) => fork instanceof Sandbox), [true, true]);
    for (const fork of forks) {
      equal((await fork.getInfo()).metadata, { a: "1" });
      equal(await Sandbox.kill(fork.sandboxId, options), true);
    }
    equal((await sandbox.fork()).length, 1, "once unless it says how often");
  });
});

testEach(versions, "a list takes every question and goes on from a token", async (sdk) => {
  const run = `list ${Math.random()}`;
  const made = [];
  try {
    for (let i = 0; i < 3; i++) made.push(await sdk.Sandbox.create({ ...options, metadata: { run } }));
    const ids = made.map((each) => each.sandboxId);
    const list = async (query = {}, more = {}) =>
      (await all(sdk.Sandbox.list({ ...options, ...more, query: { metadata: { run }, ...query } }))).map((each) => each.sandboxId);
    equal(await list({ state: ["running", "paused"] }), ids.toReversed());
    if (sdk === versions["2.51"]) { // 2.45 asks for less
      equal(await list({}, { order: "asc" }), ids);
      equal(await list({}, { order: "asc", limit: 2 }), ids, "in pages");
      equal(await list({ template: "base" }), ids.toReversed());
      equal(await list({ template: "nothing" }), []);
      const since = (await made[1].getInfo()).startedAt;
      assert((await list({ startedAfter: since })).includes(ids[1]));
      equal(await list({ startedAfter: new Date(Date.now() + 1000) }), []);
    }
    const first = sdk.Sandbox.list({ ...options, limit: 1, query: { metadata: { run } } });
    equal((await first.nextItems())[0].sandboxId, ids[2]);
    const rest = sdk.Sandbox.list({ ...options, query: { metadata: { run } }, nextToken: first.nextToken });
    equal((await rest.nextItems()).map((each) => each.sandboxId), [ids[1], ids[0]]);
    equal([rest.hasNext, rest.nextToken], [false, undefined]);
    const [item] = await sdk.Sandbox.list({ ...options, limit: 1, query: { metadata: { run } } }).nextItems();
    assert(item.startedAt instanceof Date && item.endAt > item.startedAt && item.templateId && item.cpuCount && item.memoryMB && item.envdVersion, item);
  } finally {
    await Promise.all(made.map((each) => each.kill()));
  }
});

testEach(versions, "a lifecycle may pause without memory; traffic does not wake that", async (sdk) => {
  const lifecycle = { onTimeout: { action: "pause", keepMemory: false } };
  await withSandbox(sdk, daemon, { timeoutMs: 1_000, lifecycle }, async (sandbox) => {
    await sandbox.files.write("kept", "kept");
    await eventually(async () => (await sandbox.getInfo()).state === "paused", "it is paused", 5_000);
    equal(await sandbox.isRunning(), false);
    await sandbox.connect({ timeoutMs: 60_000 });
    equal(await sandbox.files.read("kept"), "kept");
    equal((await sandbox.getInfo()).lifecycle, { onTimeout: "pause", autoResume: false });
  });
});

testEach(versions, "what is not offered here is refused, and says so", async (sdk) => {
  const refused = async (more, word) => {
    const error = await fails(sdk.SandboxError, sdk.Sandbox.create({ ...options, ...more }));
    assert(error.message.includes(word), word, error.message);
  };
  await refused({ volumeMounts: { "/data": "volume" } }, "volume");
  await refused({ network: { egressProxy: { address: "proxy:1080" } } }, "egressProxy");
  if (sdk === versions["2.51"]) { // 2.45 does not know them
    await refused({ network: { httpsPorts: [8443] } }, "httpsPorts");
    await refused({ iam: { tokens: { t: { audience: "a", tokenType: "JWT-SVID" } } } }, "iam");
  }
  await refused({ network: { rules: { "a.test": [{ transform: { headers: { a: "b" } } }] }, allowOut: ["a.test"], denyOut: [sdk.ALL_TRAFFIC] } }, "rules");
  await refused({ network: { allowOut: ["no name!"], denyOut: [sdk.ALL_TRAFFIC] } }, "no name!");
  for (const mcp of [{ time: {} }, {}]) await refused({ mcp, metadata: { "cay.hidden": "x" } }, "MCP gateway");
  await refused({ template: "mcp-gateway" }, "MCP gateway");
  const { Volume, Secret } = sdk;
  for (const call of [() => Volume.create("v", options), () => Volume.list(options), () => Volume.getInfo("v", options), () => Secret.create("s", "v", options),
    () => Secret.list(options).nextItems(), () => Secret.exists("s", options), () => Secret.destroy("s", options)]) {
    const error = await call().then((value) => value, (reason) => reason);
    assert(/501: this host has no volumes/.test(error?.message), String(error));
  }
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    await fails(sdk.NotFoundError, sandbox.getMcpToken());
    assert(sandbox.getMcpUrl().includes(`50005-${sandbox.sandboxId}`), sandbox.getMcpUrl());
  });
});

testEach(versions, "signed addresses by the SDK: up and down, for a user, until they expire", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const form = (name, text) => { const body = new FormData(); body.append("file", new Blob([text]), name); return { method: "POST", body }; };
    const up = await sandbox.uploadUrl("up.txt");
    equal((await fetch(up, form("ignored", "one"))).status, 200);
    equal(await sandbox.files.read("up.txt"), "one");
    const anywhere = await sandbox.uploadUrl();
    equal((await fetch(anywhere, form("named.txt", "two"))).status, 200);
    equal(await sandbox.files.read("named.txt"), "two");
    equal(await (await fetch(await sandbox.downloadUrl("up.txt"))).text(), "one");
    await sandbox.files.write(`${ROOT}/secret`, "root's", { user: "root" });
    await sandbox.commands.run(`chmod 600 ${ROOT}/secret`, { user: "root" });
    equal(await (await fetch(await sandbox.downloadUrl(`${ROOT}/secret`, { user: "root" }))).text(), "root's");
    assert((await fetch(await sandbox.downloadUrl(`${ROOT}/secret`))).status >= 400, "not as another user");
    // Replayed after its time, it opens nothing.
    const brief = await sandbox.downloadUrl("up.txt", { useSignatureExpiration: 2 });
    equal((await fetch(brief)).status, 200);
    await eventually(async () => (await fetch(brief)).status === 401, "it expires", 5_000);
    equal(await (await fetch(brief)).json(), { code: 401, message: "signature is already expired" });
    const longer = new URL(brief);
    longer.searchParams.set("signature_expiration", String(Math.floor(Date.now() / 1000) + 600));
    equal((await fetch(longer)).status, 401, "its time is signed, too");
  });
});

testEach(versions, "files go packed and unpacked, as one or many, as octets or forms", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const text = "0123456789 ä€ ".repeat(10_000);
    for (const gzip of [true, false]) {
      for (const useOctetStream of [true, false]) {
        const name = `f-${gzip}-${useOctetStream}`;
        const info = await sandbox.files.write(name, text, { gzip, useOctetStream });
        equal([info.name, info.path], [name, `${HOME}/${name}`]);
        equal(await sandbox.files.read(name, { gzip }), text, name);
      }
    }
    const many = Array.from({ length: 5 }, (_, i) => ({ path: `many/${i}`, data: `number ${i}` }));
    for (const more of [{}, { useOctetStream: true }, { gzip: true }]) {
      const infos = await sandbox.files.writeFiles(many, more);
      equal(infos.map((each) => each.path), many.map((each) => `${HOME}/${each.path}`), JSON.stringify(more));
      equal(await Promise.all(many.map((each) => sandbox.files.read(each.path))), many.map((each) => each.data));
      await sandbox.files.remove("many");
    }
    equal(await sandbox.files.writeFiles([]), [], "none at all");
    const stream = await sandbox.files.read("f-true-true", { format: "stream", streamIdleTimeoutMs: 5_000 });
    let size = 0;
    for await (const piece of stream) size += piece.length;
    equal(size, Buffer.byteLength(text));
    if (sdk === versions["2.51"]) {
      const infos = await sandbox.files.write([{ path: "m1", data: "1" }, { path: "m2", data: "2" }], { metadata: { both: "yes" } });
      equal(infos.map((each) => each.metadata), [{ both: "yes" }, { both: "yes" }]);
    }
  });
});

testEach(versions, "every call on files can be made as another user", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const user = "root";
    equal(await sandbox.files.makeDir("~/d", { user }), true);
    await sandbox.files.write("~/d/f", "x", { user });
    equal((await sandbox.files.getInfo("d/f", { user })).path, `${ROOT}/d/f`);
    equal(await sandbox.files.exists("d/f", { user }), true);
    equal((await sandbox.files.list("d", { user })).map((each) => each.name), ["f"]);
    equal((await sandbox.files.rename("d/f", "d/g", { user })).owner, "root");
    await sandbox.files.remove("d", { user });
    equal(await sandbox.files.exists("d", { user }), false);
    const nobody = { user: "nobody-here" };
    for (const call of [() => sandbox.files.makeDir("x", nobody), () => sandbox.files.remove("x", nobody), () => sandbox.files.rename("x", "y", nobody),
      () => sandbox.files.getInfo("x", nobody), () => sandbox.files.exists("x", nobody), () => sandbox.files.write("x", "x", nobody)])
      await fails(sdk.AuthenticationError, call());
  });
});

testEach(versions, "a watch takes every option", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    await sandbox.files.makeDir("~/w/below", { user: "root" });
    const seen = [];
    let isOver = false;
    const handle = await sandbox.files.watchDir("~/w", (event) => { seen.push(event); }, {
      user: "root", recursive: true, includeEntry: true, allowNetworkMounts: true, timeoutMs: 30_000, requestTimeoutMs: 10_000, onExit: () => { isOver = true; },
    });
    await sandbox.files.write("~/w/below/f", "12", { user: "root" });
    await eventually(() => seen.some((event) => event.type === "write" && event.name === "below/f"), "it is heard");
    const { entry } = seen.find((event) => event.type === "write");
    if (sdk === versions["2.51"]) equal([entry.path, entry.size, entry.owner], [`${ROOT}/w/below/f`, 2, "root"]);
    await handle.stop();
    await eventually(() => isOver, "it is over");
  });
});

testEach(versions, "calls end with their time and by their signal", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const isStopped = async (promise) => {
      const error = await promise.then(() => undefined, (reason) => reason);
      assert(error && /abort|timed? ?out/i.test(`${error.name} ${error.message}`), String(error));
    };
    await isStopped(sandbox.commands.run("sleep 1000", { timeoutMs: 0, signal: AbortSignal.timeout(300) }));
    await isStopped(sandbox.commands.run("sleep 1000", { timeoutMs: 300, requestTimeoutMs: 5_000 }));
    for (const call of [
      (more) => sandbox.files.read("/etc/passwd", more), (more) => sandbox.files.list("/", more), (more) => sandbox.files.write("x", "x", more),
      (more) => sandbox.files.exists("/", more), (more) => sandbox.commands.list(more), (more) => sandbox.getInfo(more), (more) => sandbox.isRunning(more),
      (more) => sandbox.getMetrics(more), (more) => sdk.Sandbox.getInfo(sandbox.sandboxId, { ...options, ...more }),
    ]) {
      await isStopped(call({ signal: AbortSignal.abort() }));
      await call({ requestTimeoutMs: 30_000, signal: AbortSignal.timeout(30_000) });
    }
    await isStopped(sdk.Sandbox.create({ ...options, signal: AbortSignal.abort() }));
  });
});

testEach(versions, "handles of commands do what the commands do", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    equal(sandbox.commands.supportsStdinClose, true);
    const cat = await sandbox.commands.run("cat; exit 3", { background: true, stdin: true, envs: { A: "b" }, cwd: "/tmp" });
    equal([cat.exitCode, cat.error], [undefined, undefined]);
    const [listed] = await sandbox.commands.list();
    equal([listed.pid, listed.cwd, listed.envs], [cat.pid, "/tmp", {}]);
    await sandbox.commands.sendStdin(cat.pid, new TextEncoder().encode("bytes\n"));
    await (cat.sendStdin ? cat.sendStdin("text\n") : sandbox.commands.sendStdin(cat.pid, "text\n"));
    await (cat.closeStdin ? cat.closeStdin() : sandbox.commands.closeStdin(cat.pid));
    const ended = await fails(sdk.CommandExitError, cat.wait());
    equal([ended.stdout, ended.exitCode, cat.exitCode, cat.error, cat.stdout, cat.stderr], ["bytes\ntext\n", 3, 3, "exit status 3", "bytes\ntext\n", ""]);
    const [out, err] = [[], []];
    const slow = await sandbox.commands.run("echo one; read x; echo two; echo three >&2", { background: true, stdin: true });
    const again = await sandbox.commands.connect(slow.pid, { onStdout: (text) => { out.push(text); }, onStderr: (text) => { err.push(text); }, timeoutMs: 30_000 });
    await slow.disconnect();
    await sandbox.commands.sendStdin(slow.pid, "\n");
    equal((await again.wait()).exitCode, 0);
    equal([out.join(""), err.join("")], ["one\ntwo\n", "three\n"]);
    const sleeping = await sandbox.commands.run("sleep 1000", { background: true });
    equal([await sleeping.kill(), await sleeping.kill()], [true, false]);
  });
});

testEach(versions, "terminals are connected to, have a user, a directory and an end", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const text = { first: "", second: "" };
    const pty = await sandbox.pty.create({
      cols: 80, rows: 24, user: "root", cwd: "/tmp", envs: { MINE: "yes" }, timeoutMs: 0,
      onData: (data) => { text.first += Buffer.from(data).toString(); },
    });
    const type = (line) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(line));
    await type("echo $(id -u)-$PWD-$MINE-$TERM\n");
    await eventually(() => text.first.includes("0-/tmp-yes-xterm-256color"), "what it is");
    const other = await sandbox.pty.connect(pty.pid, { onData: (data) => { text.second += Buffer.from(data).toString(); }, timeoutMs: 0 });
    equal(other.pid, pty.pid);
    await sandbox.pty.resize(pty.pid, { cols: 91, rows: 17 });
    await type("stty size 2> /dev/null || { shopt -s checkwinsize; (:); echo $LINES $COLUMNS; }\n");
    await eventually(() => text.first.includes("17 91") && text.second.includes("17 91"), "its size, to both");
    await pty.disconnect();
    equal(await sandbox.pty.kill(pty.pid), true);
    await fails(sdk.CommandExitError, other.wait());
    equal(await sandbox.pty.kill(pty.pid), false);
    await fails(sdk.NotFoundError, sandbox.pty.connect(99999, { onData: () => {} }));
    await fails(sdk.NotFoundError, sandbox.pty.resize(99999, { cols: 1, rows: 1 }));
    await fails(sdk.NotFoundError, sandbox.pty.sendInput(99999, new Uint8Array([10])));
    const brief = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 500, onData: () => {} });
    await fails(sdk.TimeoutError, brief.wait());
  });
});

testEach(versions, "ports by the SDK: hosts, private ones and masks", async (sdk) => {
  const network = { allowPublicTraffic: false, maskRequestHost: "x.test:${PORT}" };
  await withSandbox(sdk, daemon, { timeoutMs: 60_000, network }, async (sandbox) => {
    assert(sandbox.trafficAccessToken, "a token");
    assert(sandbox.getHost(3000).startsWith(`3000-${sandbox.sandboxId}.`), sandbox.getHost(3000));
    const info = (await sandbox.getInfo()).network;
    equal([info.allowPublicTraffic, info.maskRequestHost], [false, "x.test:${PORT}"]);
    equal((await inside(daemon, sandbox.sandboxId, 3000, "/")).status, 403);
    await sandbox.updateNetwork({ denyOut: [sdk.ALL_TRAFFIC] });
    const later = await sandbox.getInfo();
    equal([later.network.allowPublicTraffic, later.allowInternetAccess], [false, false], "an update leaves it");
    const again = await sdk.Sandbox.connect(sandbox.sandboxId, options);
    equal(again.trafficAccessToken, sandbox.trafficAccessToken);
    await fails(sdk.SandboxNotFoundError, sdk.Sandbox.updateNetwork("inothere", {}, options));
    await sandbox.pause();
    await fails(sdk.SandboxError, sandbox.updateNetwork({}));
  });
});

testEach(versions, "git works where the template has it", async (sdk) => {
  if (!hasGit) throw new Skip("there is no git on this machine to put into a sandbox");
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const { git } = sandbox;
    await git.configureUser("A U Thor", "author@example.com");
    equal(await git.getConfig("user.name", { scope: "global" }), "A U Thor");
    await git.init("/tmp/origin", { bare: true, initialBranch: "main" });
    await git.clone("/tmp/origin", { path: `${HOME}/work` });
    await sandbox.files.write("work/a.txt", "one\n");
    const before = await git.status("work");
    equal([before.isClean, before.fileStatus.map((each) => [each.name, each.status])], [false, [["a.txt", "untracked"]]]);
    await git.add("work");
    await git.commit("work", "first");
    await git.push("work", { remote: "origin", branch: "main", setUpstream: true });
    equal((await git.status("work")).isClean, true);
    await git.createBranch("work", "side");
    equal((await git.branches("work")).currentBranch, "side");
    await git.checkoutBranch("work", "main");
    await git.deleteBranch("work", "side");
    equal((await git.branches("work")).branches, ["main"]);
    await git.pull("work");
    await sandbox.files.write("work/a.txt", "two\n");
    await git.restore("work", { paths: ["a.txt"] });
    equal(await sandbox.files.read("work/a.txt"), "one\n");
    await git.reset("work", { mode: "hard", target: "HEAD" });
    await git.remoteAdd("work", "other", "/tmp/elsewhere");
    equal(await git.remoteGet("work", "other"), "/tmp/elsewhere");
    await git.setConfig("x.y", "z", { scope: "local", path: "work" });
    equal(await git.getConfig("x.y", { scope: "local", path: "work" }), "z");
  });
});

test("a client with settings of its own serves all its calls", async () => {
  const { E2B } = versions["2.51"];
  const seen = [];
  const { timeoutMs, ...connection } = options;
  const client = new E2B({ ...connection, headers: { "x-mine": "yes" }, logger: { debug: (...line) => seen.push(line), info: (...line) => seen.push(line), error() {}, warn() {} } });
  const sandbox = await client.Sandbox.create({ timeoutMs });
  try {
    equal((await sandbox.commands.run("echo hi")).stdout, "hi\n");
    assert((await client.Sandbox.list().nextItems()).some((each) => each.sandboxId === sandbox.sandboxId));
    equal(await client.Template.exists("base"), true);
    assert(seen.length > 0, "its logger");
  } finally {
    await sandbox.kill();
  }
});

await run(daemon);
