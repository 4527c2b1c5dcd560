// SPDX-License-Identifier: Apache-2.0
// Directories of a sandbox are watched, by E2B's own SDKs and by the wire itself.
import { readdirSync, readlinkSync } from "node:fs";
import { assert, equal, eventually, run, test } from "./harness.mjs";
import { envelope, fails, inside, sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const versions = await sdks();
const HOME = ["", "home", "user"].join("/");
const PATIENCE_MS = 30_000;

/** A watch with what it heard: `seen` has "kind name". */
async function watch(sandbox, path, options = {}) {
  const heard = { seen: [], events: [] };
  heard.exit = new Promise((resolve) => {
    heard.onExit = (error) => { heard.isOver = true; resolve(error); };
  });
  heard.handle = await sandbox.files.watchDir(path, (event) => {
    heard.seen.push(`${event.type} ${event.name}`);
    heard.events.push(event);
  }, { timeoutMs: 0, ...options, onExit: heard.onExit });
  heard.until = (what) => eventually(() => heard.seen.includes(what), `"${what}" is heard`, PATIENCE_MS);
  return heard;
}

/** A call of filesystem.Filesystem without an SDK. */
async function rpc(sandbox, method, message, init = {}) {
  const answer = await inside(daemon, sandbox.sandboxId, 49983, `/filesystem.Filesystem/${method}`, {
    method: "POST", body: JSON.stringify(message), ...init,
    headers: { "content-type": "application/json", "x-access-token": sandbox.envdAccessToken, ...init.headers },
  });
  return { status: answer.status, json: await answer.json() };
}

/** WatchDir without an SDK: the response, and its messages one by one. */
async function stream(sandbox, message, headers = {}) {
  const answer = await inside(daemon, sandbox.sandboxId, 49983, "/filesystem.Filesystem/WatchDir", {
    method: "POST", body: envelope(message),
    headers: { "content-type": "application/connect+json", "x-access-token": sandbox.envdAccessToken, ...headers },
  });
  equal(answer.status, 200);
  async function* messages() {
    let rest = Buffer.alloc(0);
    for await (const piece of answer.body) {
      rest = Buffer.concat([rest, piece]);
      while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
        const end = 5 + rest.readUInt32BE(1);
        yield { flags: rest[0], ...JSON.parse(rest.subarray(5, end)) };
        rest = rest.subarray(end);
      }
    }
  }
  return messages();
}

testEach(versions, "every kind of change is told", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    await sandbox.commands.run("mkdir d; echo 1 > d/old");
    const heard = await watch(sandbox, "d");
    await sandbox.files.write("d/new", "x");
    await heard.until("write new");
    assert(heard.seen.indexOf("create new") === 0, heard.seen);
    await sandbox.commands.run("chmod 600 d/old; mv d/old d/moved; rm d/moved; mkdir d/sub; echo 1 > d/sub/hidden; echo 1 > d/end");
    await heard.until("write end");
    const rest = heard.seen.slice(heard.seen.indexOf("chmod old"));
    equal(rest.slice(0, 4), ["chmod old", "rename old", "create moved", "remove moved"]);
    assert(!heard.seen.some((each) => each.includes("hidden")), "not below it", heard.seen);
    assert(heard.events.every((each) => each.entry === undefined), "no entries unless wanted");
    await heard.handle.stop();
    await heard.exit;
    const before = heard.seen.length;
    await sandbox.commands.run("echo 1 > d/unheard");
    equal(heard.seen.length, before, "nothing after the stop");
  });
});

testEach(versions, "what is below is watched, new directories included, with entries if wanted", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    await sandbox.files.makeDir("d/a/b");
    const heard = await watch(sandbox, `${HOME}/d`, { recursive: true, includeEntry: true });
    await sandbox.files.write("d/a/b/f", "12345");
    await heard.until("write a/b/f");
    await sandbox.commands.run("mkdir -p d/x/y/z; echo 1 > d/x/y/z/f");
    await heard.until("create x/y/z/f");
    for (const name of ["x", "x/y", "x/y/z"]) equal(heard.seen.filter((each) => each === `create ${name}`).length, 1, name);
    await sandbox.commands.run("echo 2 > d/x/y/z/g; rm -r d/x");
    await heard.until("remove x");
    await heard.until("create x/y/z/g");
    const { entry } = heard.events.find((each) => each.type === "write" && each.name === "a/b/f");
    equal([entry.name, entry.path, entry.type, entry.owner, entry.size], ["f", `${HOME}/d/a/b/f`, "file", "user", 5]);
    assert(heard.events.filter((each) => each.type === "remove").every((each) => !each.entry), "none of what is gone");
    await heard.handle.stop();
    await heard.exit;
  });
});

testEach(versions, "what cannot be watched is told apart", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    await fails(sdk.NotFoundError, watch(sandbox, "not/there"));
    await fails(sdk.InvalidArgumentError, watch(sandbox, "/etc/passwd"));
    await fails(sdk.AuthenticationError, watch(sandbox, "/tmp", { user: "stranger" }));
    await sandbox.commands.run("mkdir -m 700 secret", { user: "root", cwd: "/tmp" });
    await fails(sdk.SandboxError, watch(sandbox, "/tmp/secret"));
    const asRoot = await watch(sandbox, "/tmp/secret", { user: "root" });
    await asRoot.handle.stop();
    await asRoot.exit;
  });
});

testEach(versions, "a watch ends by its time, with its directory and with its sandbox", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    await sandbox.files.makeDir("d/gone");
    const timed = await watch(sandbox, "d", { timeoutMs: 1_000 });
    const gone = await watch(sandbox, "d/gone");
    const killed = await watch(sandbox, "d");
    assert((await timed.exit) instanceof sdk.TimeoutError, "out of time");
    await sandbox.files.remove("d/gone");
    equal(await gone.exit, undefined, "removed");
    assert(!killed.isOver, "the others go on");
    await sandbox.kill();
    const error = await killed.exit;
    assert(error instanceof sdk.SandboxError, `killed: ${error}`);
    assert(/not found|not running|terminated/i.test(error.message), error.message);
  });
});

testEach(versions, "a pause cuts every stream; the watch can be opened again afterwards", async (sdk) => {
  for (const keepMemory of [true, false]) {
    await withSandbox(sdk, daemon, {}, async (sandbox) => {
      await sandbox.files.makeDir("d");
      const heard = await watch(sandbox, "d");
      const command = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
      const follower = await sandbox.commands.connect(command.pid, { timeoutMs: 0 });
      const ends = [command, follower].map((each) => each.wait().then(() => undefined, (error) => error));
      await sandbox.pause({ keepMemory });
      assert((await heard.exit) instanceof Error, "the watch is cut");
      for (const error of await Promise.all(ends))
        assert(error instanceof sdk.SandboxError && !(error instanceof sdk.CommandExitError), `cut, not ended: ${error}`);
      await sandbox.connect();
      equal((await sandbox.commands.list()).length, keepMemory ? 1 : 0, "the process goes on with its memory only");
      const again = await watch(sandbox, "d");
      await sandbox.files.write("d/f", "x");
      await again.until("create f");
      await again.handle.stop();
      await again.exit;
    });
  }
});

testEach(versions, "a storm is told in full, or as an end that says so", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const count = 5_000;
    await sandbox.files.makeDir("d");
    const heard = await watch(sandbox, "d", { recursive: true });
    await sandbox.commands.run(`for ((i = 0; i < ${count}; i++)); do echo > d/$i; done; echo > d/end`);
    await eventually(() => heard.isOver || heard.seen.includes("create end"), "the storm is over", PATIENCE_MS);
    if (heard.isOver) {
      const error = await heard.exit;
      assert(/data_loss/.test(error?.message), `it ended for another reason: ${error}`);
    } else {
      equal(heard.seen.filter((each) => each.startsWith("create ")).length, count + 1);
    }
    await heard.handle.stop();
    equal((await sandbox.commands.run("echo well")).stdout, "well\n");
  });
});

test("the wire: start comes first, time ends a stream, errors are its last message", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    const frames = [];
    for await (const frame of await stream(sandbox, { path: "/tmp" }, { "connect-timeout-ms": "300" })) frames.push(frame);
    equal(frames[0], { flags: 0, start: {} });
    equal([frames.length, frames[1].flags, frames[1].error.code], [2, 2, "deadline_exceeded"]);
    const [only, ...others] = await Array.fromAsync(await stream(sandbox, { path: "/no" }));
    equal([only.flags, only.error.code, others.length], [2, "not_found", 0]);
    const [file] = await Array.fromAsync(await stream(sandbox, { path: "/etc/passwd" }));
    equal(file.error.code, "invalid_argument");
  });
});

test("clients that go away and pollers that are removed leave nothing open", async () => {
  // What watches for a sandbox is open only while somebody does.
  const watching = () => readdirSync(`/proc/${daemon.process.pid}/fd`).filter((fd) => {
    try { return readlinkSync(`/proc/${daemon.process.pid}/fd/${fd}`).includes("inotify"); } catch { return false; }
  }).length;
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    await eventually(() => watching() === 0, "nobody watches", PATIENCE_MS);
    const watches = await Promise.all(Array.from({ length: 40 }, () => watch(sandbox, "/")));
    const { watcherId } = (await rpc(sandbox, "CreateWatcher", { path: "/" })).json;
    for (const each of watches) each.handle.stop();
    await Promise.all(watches.map((each) => each.exit));
    equal(watching(), 1, "for the poller");
    await rpc(sandbox, "RemoveWatcher", { watcherId });
    await eventually(() => watching() === 0, "nobody watches any more", PATIENCE_MS);
    equal((await rpc(sandbox, "CreateWatcher", { path: "/" })).status, 200);
    equal(watching(), 1, "for another poller");
  });
  await eventually(() => watching() === 0, "the last one went with its sandbox", PATIENCE_MS);
});

test("pollers keep what happened until they are asked", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    await sandbox.files.makeDir("d/sub");
    const made = await rpc(sandbox, "CreateWatcher", { path: "d", recursive: true, includeEntry: true });
    equal(made.status, 200);
    const { watcherId } = made.json;
    equal(await rpc(sandbox, "GetWatcherEvents", { watcherId }), { status: 200, json: { events: [] } });
    await sandbox.commands.run("mkdir d/new; echo 1 > d/sub/f; rm d/sub/f");
    const events = [];
    await eventually(async () => {
      events.push(...(await rpc(sandbox, "GetWatcherEvents", { watcherId })).json.events);
      return events.some((each) => each.type === "EVENT_TYPE_REMOVE");
    }, "all of it is told", PATIENCE_MS);
    equal([events[0].name, events[0].type, events[0].entry.type], ["new", "EVENT_TYPE_CREATE", "FILE_TYPE_DIRECTORY"]);
    equal([events.at(-1).name, events.at(-1).entry], ["sub/f", undefined]);
    equal(await rpc(sandbox, "GetWatcherEvents", { watcherId }), { status: 200, json: { events: [] } }, "only once");
    await withSandbox(versions["2.51"], daemon, {}, async (stranger) => {
      equal((await rpc(stranger, "GetWatcherEvents", { watcherId })).status, 404, "another sandbox");
      equal((await rpc(stranger, "RemoveWatcher", { watcherId })).status, 404, "another sandbox");
    });
    equal(await rpc(sandbox, "RemoveWatcher", { watcherId }), { status: 200, json: {} });
    for (const method of ["GetWatcherEvents", "RemoveWatcher"]) {
      const { status, json } = await rpc(sandbox, method, { watcherId });
      equal([status, json.code], [404, "not_found"], method);
    }
    for (const [path, code] of [["/no", "not_found"], ["/etc/passwd", "invalid_argument"]])
      equal((await rpc(sandbox, "CreateWatcher", { path })).json.code, code);
  });
});

test("pollers outlive a pause and a turn of their sandbox, and end with their directory", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    await sandbox.files.makeDir("d");
    const { watcherId } = (await rpc(sandbox, "CreateWatcher", { path: "d" })).json;
    const events = [];
    const until = (type, name) => eventually(async () => {
      events.push(...(await rpc(sandbox, "GetWatcherEvents", { watcherId })).json.events);
      return events.some((each) => each.type === `EVENT_TYPE_${type}` && each.name === name);
    }, `${type} ${name} is told`, PATIENCE_MS);
    for (const keepMemory of [true, false]) {
      await sandbox.files.write(`d/before-${keepMemory}`, "x");
      await sandbox.pause({ keepMemory });
      await sandbox.connect();
      await until("CREATE", `before-${keepMemory}`);
      await sandbox.files.write(`d/after-${keepMemory}`, "x");
      await until("CREATE", `after-${keepMemory}`);
    }
    await daemon.call("SandboxService/TurnComplete", { sessionId: sandbox.sandboxId });
    await sandbox.files.write("d/after-turn", "x");
    await until("CREATE", "after-turn");
    await sandbox.files.remove("d");
    await until("REMOVE", "after-turn");
    equal((await rpc(sandbox, "GetWatcherEvents", { watcherId })).status, 200);
    equal((await rpc(sandbox, "RemoveWatcher", { watcherId })).status, 200);
  });
});

test("pollers are bounded, and what did not fit is told", async () => {
  const sandbox = await versions["2.51"].Sandbox.create("base", daemon.options);
  try {
    await sandbox.files.makeDir("d");
    const ids = [];
    let answer;
    while ((answer = await rpc(sandbox, "CreateWatcher", { path: "d", includeEntry: true })).status === 200 && ids.length < 1_000)
      ids.push(answer.json.watcherId);
    equal([answer.status, answer.json.code], [429, "resource_exhausted"]);
    assert(ids.length >= 16, `${ids.length} fit`);
    equal((await rpc(sandbox, "RemoveWatcher", { watcherId: ids.pop() })).status, 200);
    equal((await rpc(sandbox, "CreateWatcher", { path: "d" })).status, 200, "there is room again");
    for (const watcherId of ids.splice(1)) equal((await rpc(sandbox, "RemoveWatcher", { watcherId })).status, 200);
    const [watcherId] = ids;
    // Names as long as they get: a few thousand are more than it keeps.
    await sandbox.commands.run("n=$(head -c 240 /dev/zero | tr '\\0' n); for ((i = 0; i < 3000; i++)); do echo > d/$n$i; done", { timeoutMs: 0 });
    let missed;
    await eventually(async () => {
      const { status, json } = await rpc(sandbox, "GetWatcherEvents", { watcherId });
      missed ??= status === 200 ? undefined : json;
      return missed;
    }, "it says that it missed some", PATIENCE_MS);
    equal(missed.code, "data_loss");
    await eventually(async () => (await rpc(sandbox, "GetWatcherEvents", { watcherId })).json.events?.length === 0, "then it goes on", PATIENCE_MS);
    await eventually(async () => {
      await sandbox.commands.run("echo > d/after");
      return (await rpc(sandbox, "GetWatcherEvents", { watcherId })).json.events?.some((each) => each.name === "after");
    }, "with what comes after", PATIENCE_MS);
  } finally {
    await sandbox.kill();
  }
});

await run(daemon);
