// SPDX-License-Identifier: Apache-2.0
// E2B by host names and TLS: E2B_DOMAIN alone, as the SDK does it by default, and links to ports.
import { execFileSync, spawnSync } from "node:child_process";
import dns from "node:dns";
import { mkdtempSync, rmSync } from "node:fs";
import https from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { assert, equal, run, test, throws } from "./harness.mjs";
import { sdks, serve, startE2b, testEach } from "./e2b_harness.mjs";

const DOMAIN = "sbx.test";
const folder = process.env.E2B_TEST_CERTIFICATES ?? mkdtempSync(join(tmpdir(), "cay-e2b-tls-"));
const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];

if (!process.env.E2B_TEST_CERTIFICATES) {
  // Node reads further authorities at its start only: once more, with ours.
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
    "-subj", "/CN=test", "-addext", `subjectAltName=DNS:${DOMAIN},DNS:*.${DOMAIN}`, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const { status } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), ...process.argv.slice(2)],
    { stdio: "inherit", env: { ...process.env, E2B_TEST_CERTIFICATES: folder, NODE_EXTRA_CA_CERTS: cert } });
  rmSync(folder, { recursive: true, force: true });
  process.exit(status ?? 1);
}

// Every name below the domain leads here.
const lookup = dns.lookup;
dns.lookup = (name, options, done) => {
  if (typeof options === "function") [options, done] = [{}, options];
  if (name !== DOMAIN && !name.endsWith(`.${DOMAIN}`)) return lookup(name, options, done);
  process.nextTick(() => (options.all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4)));
};

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

const port = await freePort();
const daemon = await startE2b({
  flags: ["--listen", `127.0.0.1:${port}`, "--tls-cert", cert, "--tls-key", key, "--e2b-domain", `${DOMAIN}:${port}`],
  programs: { node: process.execPath },
  listens: false,
});
const versions = await sdks();
const options = { apiKey: daemon.key, domain: `${DOMAIN}:${port}` };

const SERVER = `require("http").createServer((request, response) => response.end(request.headers.host + request.url)).listen(8000)`;

testEach(versions, "the SDK needs the domain only", async (sdk) => {
  const sandbox = await sdk.Sandbox.create({ ...options, timeoutMs: 60_000 });
  try {
    equal(sandbox.sandboxDomain ?? `${DOMAIN}:${port}`, `${DOMAIN}:${port}`);
    equal(await sandbox.isRunning(), true, "envd by its host name");
    equal((await sandbox.getInfo()).state, "running");
    await serve(daemon, sandbox, SERVER, 8000);
    const host = sandbox.getHost(8000);
    equal(host, `8000-${sandbox.sandboxId}.${DOMAIN}:${port}`);
    equal(await (await fetch(`https://${host}/a?b`)).text(), `${host}/a?b`);
    equal((await fetch(`https://${sandbox.getHost(8001)}/`)).status, 502);
    await sandbox.pause();
    equal(await sandbox.isRunning(), false);
    equal((await fetch(`https://${host}/`)).status, 502);
  } finally {
    await sandbox.kill();
  }
  equal((await fetch(`https://8000-${sandbox.sandboxId}.${DOMAIN}:${port}/`)).status, 502);
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

await run(daemon);
