// SPDX-License-Identifier: Apache-2.0
// Much at once, and over and over: many E2B sandboxes and connections, streams that are killed,
// pauses with processes and listening sockets.
import { once } from "node:events";
import { assert, equal, run, test, throws } from "./harness.mjs";
import { api, inside, sdks, serve, startE2b, testEach, withSandbox, connectTo } from "./e2b_harness.mjs";

const daemon = await startE2b({ programs: { node: process.execPath } });
const versions = await sdks();

test("100 creates at once, and all of them go", async () => {
  const made = await Promise.all(Array.from({ length: 100 }, () => api(daemon, "POST", "/v2/sandboxes", { timeout: 120 })));
  equal(new Set(made.map(({ json }) => json.sandboxID)).size, 100);
  assert(made.every(({ status }) => status === 201));
  const gone = await Promise.all(made.map(({ json }) => api(daemon, "DELETE", `/sandboxes/${json.sandboxID}`)));
  assert(gone.every(({ status }) => status === 204));
  equal((await api(daemon, "GET", "/v2/sandboxes")).json, []);
});

test("50 sandboxes and 310 connections at once", async () => {
  const sdk = versions["2.51"];
  const sandboxes = await Promise.all(Array.from({ length: 50 }, () => sdk.Sandbox.create({ ...daemon.options, timeoutMs: 120_000 })));
  try {
    // Streams hold their connections: three commands in each sandbox, waiting for their input. The SDK has 200
    // connections for them; the others come from somebody else.
    const idle = await Promise.all(Array.from({ length: 160 }, async (_, i) => {
      const socket = connectTo(daemon.url);
      socket.write(`GET /health HTTP/1.1\r\nhost: x\r\ne2b-sandbox-id: ${sandboxes[i % 50].sandboxId}\r\ne2b-sandbox-port: 49983\r\n\r\n`);
      const [data] = await once(socket, "data");
      assert(data.toString().startsWith("HTTP/1.1 204 "), data.toString());
      return socket;
    }));
    const held = await Promise.all(sandboxes.flatMap((sandbox) =>
      Array.from({ length: 3 }, () => sandbox.commands.run("read line; echo got $line", { background: true, stdin: true, timeoutMs: 0 }))));
    const more = await Promise.all(Array.from({ length: 10 }, (_, i) => inside(daemon, sandboxes[i].sandboxId, 49983, "/health")));
    assert(more.every(({ status }) => status === 204));
    await Promise.all(held.map((handle, i) => sandboxes[Math.floor(i / 3)].commands.sendStdin(handle.pid, `${i}\n`)));
    const results = await Promise.all(held.map((handle) => handle.wait()));
    results.forEach((result, i) => equal(result.stdout, `got ${i}\n`));
    assert(idle.every((socket) => !socket.destroyed), "all of them are still open");
    idle.forEach((socket) => socket.destroy());
  } finally {
    await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
  }
});

testEach(versions, "a kill during a stream is told as the end of the sandbox", async (sdk) => {
  const sandbox = await sdk.Sandbox.create({ ...daemon.options, timeoutMs: 60_000 });
  let seen;
  const begun = new Promise((resolve) => { seen = resolve; });
  const handle = await sandbox.commands.run("while true; do echo x; sleep 0.05; done", { background: true, timeoutMs: 0, onStdout: () => seen() });
  await begun;
  const waiting = handle.wait();
  waiting.catch(() => {}); // it may fail before anybody looks
  equal(await sandbox.kill(), true);
  await throws(waiting, (error) => assert(error instanceof sdk.TimeoutError, error.constructor.name, error.message));
  await throws(sandbox.commands.run("true"), (error) => assert(/not running anymore|not found/i.test(error.message), error.constructor.name, error.message));
});

testEach(versions, "the end of a timeout during a stream is told so, too", async (sdk) => {
  const sandbox = await sdk.Sandbox.create({ ...daemon.options, timeoutMs: 60_000 });
  const handle = await sandbox.commands.run("sleep 60", { background: true, timeoutMs: 0 });
  const waiting = handle.wait();
  waiting.catch(() => {}); // it may fail before anybody looks
  await sandbox.setTimeout(1_000);
  await throws(waiting, (error) => assert(error instanceof sdk.TimeoutError, error.constructor.name, error.message));
});

test("50 pauses and resumes leave processes and listening sockets as they were", async () => {
  const sdk = versions["2.51"];
  await withSandbox(sdk, daemon, { timeoutMs: 300_000 }, async (sandbox) => {
    await serve(daemon, sandbox, `let n = 0; require("http").createServer((q, a) => a.end(String(++n))).listen(8000)`, 8000);
    const handle = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
    for (let round = 1; round <= 50; round++) {
      equal(await sandbox.pause(), true);
      await sandbox.connect({ timeoutMs: 300_000 });
      equal(await (await inside(daemon, sandbox.sandboxId, 8000, "/")).text(), String(round), "the program counts on");
    }
    const list = await sandbox.commands.list();
    assert(list.some(({ pid }) => pid === handle.pid), list);
    const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
    equal(await again.kill(), true);
    equal((await sandbox.commands.run(`kill -0 ${handle.pid} || echo gone`)).stdout, "gone\n");
    await handle.disconnect?.().catch(() => {});
  });
});

await run(daemon);
