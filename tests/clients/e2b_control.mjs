// SPDX-License-Identifier: Apache-2.0
// The control plane of E2B, by its own SDKs.
import { assert, equal, run, throws } from "./harness.mjs";
import { api, inside, sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";
import { test } from "./harness.mjs";

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
    [{ volumeMounts: [{ name: "a", path: "/b" }] }, 400],
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

test("routing headers that make no sense are refused", async () => {
  for (const headers of [{ "e2b-sandbox-id": "abc" }, { "e2b-sandbox-port": "80" },
    { "e2b-sandbox-id": "a/b", "e2b-sandbox-port": "80" }, { "e2b-sandbox-id": "abc", "e2b-sandbox-port": "0" },
    { "e2b-sandbox-id": "abc", "e2b-sandbox-port": "99999" }])
    equal((await fetch(`${daemon.url}/health`, { headers })).status, 400, JSON.stringify(headers));
});

await run(daemon);
