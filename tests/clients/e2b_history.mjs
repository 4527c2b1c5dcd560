// SPDX-License-Identifier: Apache-2.0
// Snapshots, forks, templates and logs of E2B, by its own SDKs.
import { createHash } from "node:crypto";
import { assert, equal, eventually, run, test, throws } from "./harness.mjs";
import { api, inside, sdks, startE2b, testEach, tool, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const versions = await sdks();
const write = (sandbox, content) => tool(daemon, sandbox, "write_file", { path: "/workspace/a.txt", content });
const read = async (sandbox) => (await tool(daemon, sandbox, "bash", { cmd: "cat /workspace/a.txt" })).content[0].text.trim();

async function all(pages) {
  const items = [];
  while (pages.hasNext) items.push(...(await pages.nextItems()));
  return items;
}

testEach(versions, "a snapshot outlives its sandbox, and sandboxes are made from it", async (sdk, version) => {
  const name = `second-${version}`;
  const made = [];
  const create = async (template, more = {}) => {
    made.push(await sdk.Sandbox.create(template, { ...daemon.options, timeoutMs: 60_000, ...more }));
    return made.at(-1);
  };
  try {
    const source = await create("base", { metadata: { a: "1" }, envs: { A: "1" } });
    await write(source, "one");
    const plain = await source.createSnapshot();
    await write(source, "two");
    const named = await source.createSnapshot({ name });
    equal(named.names, [`alice/${name}`]);
    equal(named.snapshotId, `alice/${name}:default`);
    equal(await source.isRunning(), true, "it goes on");
    const ids = (list) => list.map((item) => item.snapshotId);
    equal(ids(await all(sdk.Sandbox.listSnapshots({ ...daemon.options, sandboxId: source.sandboxId }))), [named.snapshotId, plain.snapshotId]);
    equal(ids(await all(sdk.Sandbox.listSnapshots({ ...daemon.options, sandboxId: source.sandboxId, limit: 1 }))).length, 2);
    equal((await api(daemon, "GET", `/snapshots?name=${name}`)).json.map((item) => item.snapshotID), [named.snapshotId]);
    equal((await api(daemon, "GET", `/snapshots?name=nobody%2F${name}`)).json, []);
    equal((await api(daemon, "GET", "/snapshots?name=nothing")).json, []);
    equal((await all(sdk.Sandbox.list(daemon.options))).map((item) => item.sandboxId), [source.sandboxId], "snapshots are not sandboxes");
    // Snapshots take no place in lists of sandboxes, neither here nor in those of the daemon itself.
    const page = sdk.Sandbox.list({ ...daemon.options, limit: 1 });
    equal([(await page.nextItems()).map((item) => item.sandboxId), page.hasNext], [[source.sandboxId], false]);
    const listed = async (labels) => (await daemon.call("SandboxService/ListSessions", { labels })).sessions.map((session) => session.id);
    equal(await listed({}), [source.sandboxId]);
    equal((await listed({ "cay.hidden": "e2b-snapshot" })).length, 2);
    await source.kill();
    const first = await create(plain.snapshotId, { metadata: { b: "2" } });
    const second = await create(`alice/${name}`);
    const third = await create(name);
    equal(await read(first), "one");
    equal(await read(second), "two");
    equal(await read(third), "two");
    const info = await first.getInfo();
    equal(info.metadata, { b: "2" }, "its own, not that of the sandbox that the snapshot was taken of");
    equal((await second.getInfo()).metadata, {});
    equal((await all(sdk.Sandbox.list(daemon.options))).length, 3);
    const other = { ...daemon.options, apiKey: daemon.otherKey };
    for (const foreign of [plain.snapshotId, named.snapshotId])
      await throws(sdk.Sandbox.create(foreign, other), (error) => assert(/404/.test(error.message), error.message));
    equal(await sdk.Sandbox.deleteSnapshot(plain.snapshotId, other), false);
    equal(await sdk.Sandbox.deleteSnapshot(named.snapshotId, other), false);
    equal(await sdk.Sandbox.deleteSnapshot(plain.snapshotId, daemon.options), true);
    equal(await sdk.Sandbox.deleteSnapshot(plain.snapshotId, daemon.options), false);
    equal(await sdk.Sandbox.deleteSnapshot(named.snapshotId, daemon.options), true);
    equal(await sdk.Sandbox.deleteSnapshot(first.sandboxId, daemon.options), false, "a sandbox is no snapshot");
    equal(await read(first), "one", "what was made from it stays");
  } finally {
    await Promise.all(made.map((sandbox) => sandbox.kill().catch(() => {})));
  }
});

testEach(versions, "a snapshot takes the place of the one whose name it is given", async (sdk, version) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (source) => {
    const name = `again-${version}`;
    await write(source, "one");
    const first = await source.createSnapshot({ name });
    await withSandbox(sdk, daemon, { template: name, timeoutMs: 60_000 }, async (older) => {
      await write(source, "two");
      const [full] = first.names;
      equal(await source.createSnapshot({ name: full }), first, "by its full name, too");
      equal(await all(sdk.Sandbox.listSnapshots({ ...daemon.options, sandboxId: source.sandboxId })), [first]);
      await withSandbox(sdk, daemon, { template: name, timeoutMs: 60_000 }, async (newer) => equal(await read(newer), "two"));
      equal(await read(older), "one", "what was made from it stays");
    });
    equal((await api(daemon, "POST", `/sandboxes/${source.sandboxId}/snapshots`, { name: `bob/${name}` })).status, 400);
    equal(await sdk.Sandbox.deleteSnapshot(first.snapshotId, daemon.options), true);
    equal(await sdk.Sandbox.deleteSnapshot(first.snapshotId, daemon.options), false, "none comes back from behind it");
    await throws(sdk.Sandbox.create(name, daemon.options), (error) => assert(/404/.test(error.message), error.message));
  });
});

test("a sandbox with all the metadata it may have can be kept and forked", async () => {
  const { "2.51": sdk } = versions;
  const pairs = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]));
  await throws(sdk.Sandbox.create({ ...daemon.options, metadata: pairs(61) }), (error) => assert(/400: metadata: 60/.test(error.message), error.message));
  await withSandbox(sdk, daemon, { timeoutMs: 60_000, metadata: pairs(60) }, async (source) => {
    const { snapshotId } = await source.createSnapshot({ name: "full" });
    const [fork] = await source.fork({ timeoutMs: 60_000 });
    equal((await fork.getInfo()).metadata, pairs(60));
    await fork.kill();
    await withSandbox(sdk, daemon, { template: snapshotId, timeoutMs: 60_000, metadata: pairs(60) }, async (made) => {
      equal(await made.createSnapshot({ name: "full" }), { snapshotId, names: ["alice/full"] });
    });
    equal(await sdk.Sandbox.deleteSnapshot(snapshotId, daemon.options), true);
  });
});

test("a snapshot is no sandbox, by any call", async () => {
  const { "2.51": sdk } = versions;
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (source) => {
    await write(source, "kept");
    const { snapshotId } = await source.createSnapshot();
    const [id] = snapshotId.split(":");
    for (const [method, path, body] of [["GET", ""], ["DELETE", ""], ["POST", "/connect", {}], ["POST", "/resume", {}], ["POST", "/timeout", { timeout: 1 }],
      ["POST", "/refreshes", { duration: 15 }], ["POST", "/pause", {}], ["POST", "/fork", {}], ["POST", "/snapshots", {}], ["GET", "/metrics"], ["GET", "/logs"],
      ["PUT", "/network", {}]]) {
      const answer = await api(daemon, method, `/sandboxes/${id}${path}`, body);
      equal([answer.status, answer.json?.code], [404, 404], `${method} ${path}`);
    }
    equal((await inside(daemon, id, 8080, "/")).status, 502);
    await withSandbox(sdk, daemon, { template: snapshotId, timeoutMs: 60_000 }, async (made) => equal(await read(made), "kept"));
    equal(await sdk.Sandbox.deleteSnapshot(snapshotId, daemon.options), true);
  });
});

testEach(versions, "a running sandbox forks eightfold, a paused one does not", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000, metadata: { m: "x" } }, async (source) => {
    await write(source, "shared");
    const forks = await source.fork({ count: 8, timeoutMs: 60_000 });
    try {
      equal(forks.length, 8);
      equal(new Set(forks.map((fork) => fork.sandboxId)).size, 8);
      await write(forks[0], "own");
      equal([await read(forks[0]), await read(forks[7]), await read(source)], ["own", "shared", "shared"]);
      equal((await forks[3].getInfo()).metadata, { m: "x" });
      equal(await forks[5].isRunning(), true);
    } finally {
      await Promise.all(forks.map((fork) => fork.kill()));
    }
    await source.pause();
    await throws(source.fork(), (error) => assert(/409|not run/.test(error.message), error.message));
    for (const body of [{ count: 0 }, { count: 101 }, { count: -1 }, { timeout: 0 }])
      equal((await api(daemon, "POST", `/sandboxes/${source.sandboxId}/fork`, body)).status, 400, JSON.stringify(body));
  });
  equal((await api(daemon, "POST", "/sandboxes/inothere/fork", {})).status, 404);
});

testEach(versions, "templates are bases", async (sdk) => {
  equal(await sdk.Template.exists("base", daemon.options), true);
  equal(await sdk.Template.exists(daemon.base, daemon.options), true);
  equal(await sdk.Template.exists("nothing", daemon.options), false);
  const { json } = await api(daemon, "GET", "/templates/aliases/base");
  equal(json.templateID, daemon.base);
});

testEach(versions, "metrics tell what a sandbox uses, now and over time", async (sdk) => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const started = Date.now();
    const [first] = await sandbox.getMetrics();
    assert(first.memUsed > 0 && first.memTotal > first.memUsed && first.cpuCount >= 1, first);
    let metrics;
    await eventually(async () => (metrics = await sandbox.getMetrics({ start: new Date(started) })).length >= 2, "two samples", 25_000);
    assert(metrics.every((metric) => metric.timestamp.getTime() >= started - 1000 && metric.cpuUsedPct >= 0), metrics);
    equal((await sandbox.getMetrics({ start: new Date(1000), end: new Date(2000) })).length, 0, "long ago");
    await throws(sdk.Sandbox.getMetrics(sandbox.sandboxId, { ...daemon.options, apiKey: daemon.otherKey }),
      (error) => assert(error instanceof sdk.SandboxNotFoundError, error.message));
    equal((await api(daemon, "GET", `/sandboxes/${sandbox.sandboxId}/metrics?start=x`)).status, 400);
  });
});

test("a signed URL finds its sandbox by its signature alone", async () => {
  const { json } = await api(daemon, "POST", "/sandboxes", { timeout: 60 });
  const signed = (token, path, operation) =>
    `v1_${createHash("sha256").update(`${path}:${operation}:user:${token}`).digest("base64").replace(/=+$/, "")}`;
  const get = (signature) =>
    fetch(`${daemon.url}/files?path=none.txt&username=user&signature=${encodeURIComponent(signature)}`);
  equal((await get(signed(json.envdAccessToken, "none.txt", "read"))).status, 404, "there is no such file");
  for (const bad of [signed("other", "none.txt", "read"), signed(json.envdAccessToken, "none.txt", "write"), "v1_", "x"]) {
    const answer = await get(bad);
    equal([answer.status, await answer.json()], [401, { code: 401, message: "invalid signature" }]);
  }
  await api(daemon, "DELETE", `/sandboxes/${json.sandboxID}`);
});

test("a log tells what happened", async () => {
  const { json } = await api(daemon, "POST", "/sandboxes", { timeout: 60 });
  const { json: log } = await api(daemon, "GET", `/v2/sandboxes/${json.sandboxID}/logs`);
  assert(log.logs.some((line) => line.message === "session.created"), log);
  equal((await api(daemon, "GET", "/sandboxes/inothere/logs")).status, 404);
  equal((await api(daemon, "GET", `/sandboxes/${json.sandboxID}/logs`, undefined, { "x-api-key": daemon.otherKey })).status, 404);
  await api(daemon, "DELETE", `/sandboxes/${json.sandboxID}`);
});

test("network rules that nobody here enforces are refused", async () => {
  const { json } = await api(daemon, "POST", "/sandboxes", { timeout: 60, allow_internet_access: false });
  const put = async (body) => (await api(daemon, "PUT", `/sandboxes/${json.sandboxID}/network`, body)).status;
  equal(await put({ allow_internet_access: false }), 204);
  equal(await put({ denyOut: ["0.0.0.0/0"] }), 204);
  for (const body of [{ rules: { "a.b": [{}] } }, { egressProxy: { address: "x" } }, { httpsPorts: [1] }, { allowOut: ["a.b"] }])
    equal(await put(body), 400, JSON.stringify(body));
  equal((await api(daemon, "PUT", "/sandboxes/inothere/network", {})).status, 404);
  await api(daemon, "DELETE", `/sandboxes/${json.sandboxID}`);
});

await run(daemon);
