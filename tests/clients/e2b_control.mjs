// SPDX-License-Identifier: Apache-2.0
// The control plane of E2B, by its own SDKs.
import { readFileSync } from "node:fs";
import { assert, equal, eventually, run, test, throws } from "./harness.mjs";
import { IN_GVISOR, api, fails, inside, sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const versions = await sdks();

testEach(versions, "a sandbox is created, runs, and has a token", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    assert(/^[a-z0-9]+$/.test(sandbox.sandboxId), sandbox.sandboxId);
    assert(await sandbox.isRunning(), "it runs");
  });
});

test("what cannot be made is refused", async () => {
  for (const [body, status] of [
    [{ timeout: 0 }, 400], [{ timeout: -1 }, 400], [{ timeout: 1e12 }, 400], [{ timeout: "x" }, 400],
    [{ autoPauseMemory: false }, 400], [{ autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } }, 400],
    [{ templateID: "nothing" }, 404], ["{", 400], ["[]", 400], [{ metadata: { a: 1 } }, 400],
    [{ metadata: { a: "x".repeat(1025) } }, 400], [{ envVars: { "A=B": "x" } }, 400],
    [{ volumeMounts: [{ name: "a", path: "/b" }] }, 400], [{ metadata: { "cay.runtime": "nothing" } }, 501],
  ]) {
    const answer = await api(daemon, "POST", "/v2/sandboxes", body);
    equal([answer.status, answer.json?.code], [status, status], JSON.stringify(body).slice(0, 80));
    assert(answer.json.message, "it says why");
  }
});

test("calls need a key", async () => {
  for (const key of ["", "e2b_00", "cay_0000000000000000000000000000000000000000"]) {
    const answer = await api(daemon, "POST", "/sandboxes", {}, { "x-api-key": key });
    equal([answer.status, answer.json?.code], [401, 401], key);
  }
});

test("a sandbox that is not there answers 502", async () => {
  const answer = await inside(daemon, "inothere", 49983, "/health");
  equal(answer.status, 502);
  const body = await answer.json();
  equal([body.sandboxId, body.message, body.code], ["inothere", "The sandbox was not found", 502]);
});

test("a sandbox that is gone says why", async () => {
  const why = async (id) => {
    const answer = await inside(daemon, id, 8000, "/");
    equal(answer.status, 502);
    return (await answer.json()).why;
  };
  const create = async (body) => (await api(daemon, "POST", "/sandboxes", body)).json.sandboxID;
  const killed = await create({ timeout: 60 });
  await api(daemon, "DELETE", `/sandboxes/${killed}`);
  assert(/was destroyed on /.test(await why(killed)), await why(killed));
  const late = await create({ timeout: 1 });
  await eventually(async () => (await api(daemon, "GET", `/sandboxes/${late}`)).status === 404, "it is over");
  await eventually(async () => /at its deadline/.test(await why(late)), "it says why");
  assert(/at its deadline/.test((await api(daemon, "GET", `/sandboxes/${late}`)).json.message));
  const foreign = await api(daemon, "GET", `/sandboxes/${late}`, undefined, { "x-api-key": daemon.otherKey });
  assert(/there is no session/.test(foreign.json.message), foreign.json.message);
  const paused = await create({ timeout: 60 });
  await api(daemon, "POST", `/sandboxes/${paused}/pause`, {});
  assert(/paused/.test(await why(paused)));
  await api(daemon, "DELETE", `/sandboxes/${paused}`);
});

test("routing headers that make no sense are refused", async () => {
  for (const headers of [{ "e2b-sandbox-id": "abc" }, { "e2b-sandbox-port": "80" },
    { "e2b-sandbox-id": "a/b", "e2b-sandbox-port": "80" }, { "e2b-sandbox-id": "abc", "e2b-sandbox-port": "0" },
    { "e2b-sandbox-id": "abc", "e2b-sandbox-port": "99999" }])
    equal((await fetch(`${daemon.url}/health`, { headers })).status, 400, JSON.stringify(headers));
});

testEach(versions, "a sandbox tells about itself, to its owner only", async (sdk) => {
  const metadata = { agent: "a b", "ü+&=%": "x%20y=z&+", "cay.runtime": IN_GVISOR ? "gvisor" : "namespaces" };
  await withSandbox(sdk, daemon, { timeoutMs: 60_000, metadata, lifecycle: { onTimeout: "pause", autoResume: true } }, async (sandbox) => {
    const info = await sandbox.getInfo();
    equal([info.sandboxId, info.state, info.metadata], [sandbox.sandboxId, "running", metadata]);
    equal(info.lifecycle, { onTimeout: "pause", autoResume: true });
    equal(info.endAt - info.startedAt > 58_000 && info.endAt - info.startedAt < 62_000, true, "the timeout");
    assert(info.cpuCount >= 1 && info.memoryMB >= 16 && info.envdVersion, info);
    const other = { ...daemon.options, apiKey: daemon.otherKey };
    const id = sandbox.sandboxId;
    const isNotFound = (error) => assert(error instanceof sdk.SandboxNotFoundError, error.constructor.name, error.message);
    await throws(sdk.Sandbox.getInfo(id, other), isNotFound);
    await throws(sdk.Sandbox.connect(id, other), isNotFound);
    await throws(sdk.Sandbox.setTimeout(id, 1000, other), isNotFound);
    await throws(sdk.Sandbox.pause(id, other), isNotFound);
    equal(await sdk.Sandbox.kill(id, other), false, "kill by a stranger");
    equal(await sandbox.isRunning(), true);
    equal((await sdk.Sandbox.list(other).nextItems()).length, 0, "a stranger's list");
    equal((await sdk.Sandbox.getInfo(`${id}-machine`, daemon.options)).sandboxId, id, "with a machine's id");
    await throws(sdk.Sandbox.getInfo(id, { ...daemon.options, apiKey: "e2b_0123456789abcdef0123456789abcdef01234567" }),
      (error) => assert(error instanceof sdk.AuthenticationError, error.constructor.name));
  });
});

testEach(versions, "a killed sandbox is gone", async (sdk) => {
  const sandbox = await sdk.Sandbox.create({ ...daemon.options, timeoutMs: 60_000 });
  equal(await sandbox.kill(), true);
  equal(await sandbox.kill(), false, "again");
  equal(await sandbox.isRunning(), false);
  await throws(sandbox.getInfo(), (error) => assert(error instanceof sdk.SandboxNotFoundError, error.message));
  await throws(sdk.Sandbox.connect(sandbox.sandboxId, daemon.options),
    (error) => assert(error instanceof sdk.SandboxNotFoundError, error.message));
});

testEach(versions, "a deadline is set, moved and kept to the second", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const end = async () => (await sandbox.getInfo()).endAt.getTime();
    const first = await end();
    const again = await sdk.Sandbox.connect(sandbox.sandboxId, { ...daemon.options, timeoutMs: 10_000 });
    equal(again.sandboxId, sandbox.sandboxId);
    equal(await end(), first, "a shorter connect");
    await sdk.Sandbox.connect(sandbox.sandboxId, { ...daemon.options, timeoutMs: 120_000 });
    assert((await end()) - first > 50_000, "a longer connect extends");
    const set = Date.now();
    await sandbox.setTimeout(1_000);
    assert(Math.abs((await end()) - set - 1_000) < 900, "setTimeout may shorten");
    await eventually(async () => !(await sandbox.isRunning()), "it ended", 5_000);
    const took = Date.now() - set;
    assert(took >= 1_000 && took < 2_500, "ended after", took);
    await throws(sandbox.setTimeout(1_000), (error) => assert(error instanceof sdk.SandboxNotFoundError, error.message));
  });
});

test("refreshes only extend", async () => {
  const { json } = await api(daemon, "POST", "/sandboxes", { timeout: 60 });
  const end = async () => Date.parse((await api(daemon, "GET", `/sandboxes/${json.sandboxID}`)).json.endAt);
  const first = await end();
  equal((await api(daemon, "POST", `/sandboxes/${json.sandboxID}/refreshes`, { duration: 1 })).status, 204);
  equal(await end(), first);
  equal((await api(daemon, "POST", `/sandboxes/${json.sandboxID}/refreshes`, { duration: 300 })).status, 204);
  assert((await end()) - first > 200_000);
  equal((await api(daemon, "POST", `/sandboxes/${json.sandboxID}/timeout`, {})).status, 400);
  equal((await api(daemon, "POST", `/sandboxes/${json.sandboxID}/timeout`, { timeout: -5 })).status, 204);
  await eventually(async () => (await api(daemon, "GET", `/sandboxes/${json.sandboxID}`)).status === 404, "gone");
});

for (const keepMemory of [true, false])
  testEach(versions, `a sandbox is paused ${keepMemory ? "with" : "without"} memory and resumed`, async (sdk) => {
    await withSandbox(sdk, daemon, { timeoutMs: 2_000 }, async (sandbox) => {
      equal(await sandbox.pause({ keepMemory }), true);
      equal((await sandbox.getInfo()).state, "paused");
      equal(await sandbox.isRunning(), false);
      equal(await sandbox.pause({ keepMemory }), false, "again");
      // A deadline that ran while it sleeps would be its end.
      const refused = await fails(sdk.SandboxError, sandbox.setTimeout(1_000));
      assert(refused.message.includes("409: the sandbox is paused"), refused.message);
      equal((await api(daemon, "POST", `/sandboxes/${sandbox.sandboxId}/refreshes`, { duration: 15 })).status, 409);
      // Past its deadline: what was put to sleep is there until it is woken.
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      equal((await sandbox.getInfo()).state, "paused");
      const [listed] = await sdk.Sandbox.list({ ...daemon.options, query: { state: ["paused"] } }).nextItems();
      equal(listed.sandboxId, sandbox.sandboxId);
      await sandbox.connect({ timeoutMs: 60_000 });
      equal(await sandbox.isRunning(), true);
      const info = await sandbox.getInfo();
      equal(info.state, "running");
      assert(info.endAt - Date.now() > 50_000, info.endAt);
    });
  });

testEach(versions, "a start without memory is another boot, a resume is none", async (sdk, version) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const boot = async () => (await sandbox.commands.run("cat /proc/sys/kernel/random/boot_id")).stdout.trim();
    const ids = [await boot()];
    assert(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(ids[0]) && ids[0] !== readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), ids);
    await sandbox.files.write("kept", "kept");
    await sandbox.pause();
    await sandbox.connect();
    equal(await boot(), ids[0], "with memory");
    const handle = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
    const lost = handle.wait().catch((error) => error);
    await sandbox.pause({ keepMemory: false });
    assert((await lost) instanceof Error);
    await sandbox.connect();
    ids.push(await boot());
    assert(ids[1] !== ids[0], ids);
    equal((await sandbox.commands.list()).length, 0);
    await sandbox.pause();
    await sandbox.connect({ onResume: "reboot" });
    ids.push(await boot());
    equal(new Set(ids).size, version === "2.45" ? 2 : 3, ids); // 2.45 cannot ask for it
    equal(await sandbox.files.read("kept"), "kept");
  });
});

test("a sandbox that ran out of memory says so, and goes on", async () => {
  const sdk = versions["2.51"];
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const id = sandbox.sandboxId;
    await daemon.call("SandboxService/UpdateSession", { sessionId: id, limits: { memoryBytes: String(32 << 20) } });
    const greedy = await fails(sdk.CommandExitError, sandbox.commands.run("x=0123456789abcdef; while :; do x=$x$x; done"));
    equal([greedy.exitCode, greedy.error], [-1, "signal: killed: the sandbox ran out of memory"], "one command");
    const quiet = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
    const ended = quiet.wait().catch((error) => error);
    // Memory that belongs to nobody: in the end the sandbox's first process is the only one left to kill.
    const detail = async () => (await api(daemon, "GET", `/sandboxes/${id}`)).json;
    for (let round = 0; round < 100 && !(await detail()).why; round++)
      await sandbox.commands.run("dd if=/dev/zero of=/dev/shm/full bs=64k count=640").catch(() => {});
    assert(/out of memory/.test((await detail()).why), await detail());
    equal((await ended).error, "signal: killed: the sandbox ran out of memory");
    const port = await inside(daemon, id, 8000, "/");
    equal(port.status, 502);
    assert(/out of memory/.test((await port.json()).why), "of a port");
    const { logs } = (await api(daemon, "GET", `/v2/sandboxes/${id}/logs`)).json;
    assert(logs.some((line) => line.message === "session.lost"), logs);
    equal((await sandbox.commands.run("echo again")).stdout, "again\n");
    equal((await detail()).why, undefined);
  });
});

testEach(versions, "a sandbox is paused at its deadline, and traffic wakes it", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 1_000, lifecycle: { onTimeout: "pause", autoResume: true } }, async (sandbox) => {
    const state = async () => (await sandbox.getInfo()).state;
    await eventually(async () => (await state()) === "paused", "it is paused", 3_000);
    equal(await sandbox.isRunning(), true, "traffic wakes it");
    equal(await state(), "running");
    assert((await sandbox.getInfo()).endAt - Date.now() > 250_000, "for five minutes at least");
  });
});

testEach(versions, "without auto-resume, traffic does not wake it", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 1_000, lifecycle: { onTimeout: "pause" } }, async (sandbox) => {
    await eventually(async () => (await sandbox.getInfo()).state === "paused", "it is paused", 3_000);
    equal(await sandbox.isRunning(), false);
    equal((await sandbox.getInfo()).state, "paused");
  });
});

testEach(versions, "a list can be filtered, ordered and read in pages", async (sdk, version) => {
  const run = `${version} & 100%+`;
  const made = [];
  try {
    for (let number = 0; number < 5; number++)
      made.push(await sdk.Sandbox.create({ ...daemon.options, timeoutMs: 60_000, metadata: { run, number: String(number) } }));
    await made[0].pause();
    const list = async (query, limit) => {
      const pages = sdk.Sandbox.list({ ...daemon.options, query: { metadata: { run }, ...query }, limit });
      const ids = [];
      while (pages.hasNext) ids.push(...(await pages.nextItems()).map((item) => item.sandboxId));
      return ids;
    };
    const ids = made.map((sandbox) => sandbox.sandboxId);
    equal(await list({}), ids.toReversed(), "newest first");
    equal(await list({}, 2), ids.toReversed(), "in pages of two");
    equal(await list({ state: ["running"] }), ids.slice(1).toReversed());
    equal(await list({ state: ["paused"] }), ids.slice(0, 1));
    equal(await list({ metadata: { run, number: "3" } }), [ids[3]]);
    equal(await list({ metadata: { run: "other" } }), []);
    const other = await sdk.Sandbox.list({ ...daemon.options, apiKey: daemon.otherKey, query: { metadata: { run } } }).nextItems();
    equal(other.length, 0);
    const started = (await made[2].getInfo()).startedAt;
    const query = (more) => api(daemon, "GET", `/v2/sandboxes?metadata=${encodeURIComponent(encodeURIComponent("run") + "=" + encodeURIComponent(encodeURIComponent(run)))}&${more}`);
    equal((await query("order=asc&limit=1")).json.map((item) => item.sandboxID), [ids[0]]);
    const after = (await query(`startedAfter=${started.toISOString()}`)).json.map((item) => item.sandboxID);
    assert(after.includes(ids[2]) && !after.includes(ids[0]), after);
    equal((await query(`startedAfter=${new Date(Date.now() + 1000).toISOString()}`)).json, []);
    equal((await query("template=base")).json.length, 5);
    equal((await query(`template=${daemon.base}`)).json.length, 5);
    equal((await query("template=nothing")).json, []);
    for (const bad of ["limit=0", "limit=101", "limit=x", "order=up", "state=dead", "startedAfter=then", "nextToken=x"])
      equal((await query(bad)).status, 400, bad);
    equal((await api(daemon, "GET", "/sandboxes")).json.some((item) => item.sandboxID === ids[0]), false, "the old list has no paused ones");
  } finally {
    await Promise.all(made.map((sandbox) => sandbox.kill()));
  }
});

await run(daemon);
