// SPDX-License-Identifier: Apache-2.0
// E2B by host names and TLS: E2B_DOMAIN alone, as the SDK does it by default, and links to ports.
import https from "node:https";
import { fileURLToPath } from "node:url";
import { Skip, assert, equal, run, test, throws } from "./harness.mjs";
import { sdks, serve, startE2b, testEach } from "./e2b_harness.mjs";
import { DOMAIN, named } from "./e2b_names.mjs";

const { domain, port, flags } = await named();
const daemon = await startE2b({
  flags,
  programs: { node: process.execPath },
  listens: false,
  recipe: "code-interpreter",
});
const versions = await sdks();
const options = { apiKey: daemon.key, domain };

const SERVER = `require("http").createServer((request, response) => response.end(request.headers.host + request.url)).listen(8000)`;

testEach(versions, "the SDK needs the domain only", async (sdk) => {
  const sandbox = await sdk.Sandbox.create({ ...options, timeoutMs: 60_000 });
  try {
    equal(sandbox.sandboxDomain ?? domain, domain);
    equal(await sandbox.isRunning(), true, "envd by its host name");
    equal((await sandbox.getInfo()).state, "running");
    await serve(daemon, sandbox, SERVER, 8000);
    const host = sandbox.getHost(8000);
    equal(host, `8000-${sandbox.sandboxId}.${domain}`);
    equal(await (await fetch(`https://${host}/a?b`)).text(), `${host}/a?b`);
    equal((await fetch(`https://${sandbox.getHost(8001)}/`)).status, 502);
    await sandbox.pause();
    equal(await sandbox.isRunning(), false);
    equal((await fetch(`https://${host}/`)).status, 502);
  } finally {
    await sandbox.kill();
  }
  equal((await fetch(`https://8000-${sandbox.sandboxId}.${domain}/`)).status, 502);
});

test("code runs behind its own host name (code-interpreter)", async () => {
  if (!daemon.isDebian) throw new Skip("needs the recipe code-interpreter");
  const { Sandbox } = await import("@e2b/code-interpreter");
  const sandbox = await Sandbox.create({ ...options, timeoutMs: 60_000 });
  try {
    const seen = [];
    const execution = await sandbox.runCode("print('ünï')\nx = 6 * 7\nx", { onStdout: ({ line }) => { seen.push(line); } });
    equal([execution.text, execution.executionCount, seen], ["42", 1, ["ünï\n"]]);
    const context = await sandbox.createCodeContext({ cwd: "/tmp" });
    equal((await sandbox.runCode("x", { context })).error.name, "NameError");
    equal((await fetch(`https://${sandbox.getHost(49999)}/contexts`)).status, 200, "it is a port like others");
  } finally {
    await sandbox.kill();
  }
});

test("names that make no sense are refused, others lead to the daemon", async () => {
  for (const name of ["8000-", "8000", "0-abc", "99999-abc", "8000-AB_C"])
    equal((await statusOf(`${name}.${DOMAIN}`, "/")), 400, name);
  equal(await statusOf(`api.${DOMAIN}`, "/healthz"), 200);
  equal(await statusOf(DOMAIN, "/healthz"), 200);
  equal(await statusOf(`api.${DOMAIN}`, "/sandboxes"), 401);
});

/** By hand: fetch does not let us say any host we like. */
function statusOf(host, path) {
  return new Promise((resolve, reject) => {
    https.get({ host: "127.0.0.1", port, path, servername: DOMAIN, headers: { host: `${host}:${port}` } },
      (answer) => { answer.resume(); resolve(answer.statusCode); }).on("error", reject);
  });
}

testEach(versions, "a certificate that is not trusted is not trusted", async (sdk) => {
  await throws(sdk.Sandbox.create({ apiKey: daemon.key, apiUrl: `https://127.0.0.1:${port}` }), (error) => assert(error, error));
});

testEach(versions, "files of a template go to a link of the same name", async (sdk) => {
  const template = sdk.Template({ fileContextPath: fileURLToPath(new URL(".", import.meta.url)) })
    .fromBaseImage().copy("package.json", "/srv/package.json", { forceUpload: true });
  await sdk.Template.build(template, "by-name", options);
  const sandbox = await sdk.Sandbox.create("by-name", { ...options, timeoutMs: 60_000 });
  try {
    assert((await sandbox.files.read("/srv/package.json")).includes("e2b"), "what was copied");
  } finally {
    await sandbox.kill();
  }
});

await run(daemon);
