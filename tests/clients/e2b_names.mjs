// SPDX-License-Identifier: Apache-2.0
// Host names and certificates for clients that know a domain only.
import { execFileSync, spawnSync } from "node:child_process";
import dns from "node:dns";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const DOMAIN = "sbx.test";

/** A certificate of the domain that this process trusts. The program is run once more with it: Node reads further
 * authorities at its start only. */
export function certificate() {
  const folder = process.env.E2B_TEST_CERTIFICATES ?? mkdtempSync(join(tmpdir(), "cay-e2b-tls-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  if (process.env.E2B_TEST_CERTIFICATES) return { cert, key };
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
    "-subj", "/CN=test", "-addext", `subjectAltName=DNS:${DOMAIN},DNS:*.${DOMAIN}`, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const { status } = spawnSync(process.execPath, process.argv.slice(1),
    { stdio: "inherit", env: { ...process.env, E2B_TEST_CERTIFICATES: folder, NODE_EXTRA_CA_CERTS: cert } });
  rmSync(folder, { recursive: true, force: true });
  process.exit(status ?? 1);
}

/** From now on every name below the domain leads to this machine. */
export function findNames() {
  const lookup = dns.lookup;
  dns.lookup = (name, options, done) => {
    if (typeof options === "function") [options, done] = [{}, options];
    if (name !== DOMAIN && !name.endsWith(`.${DOMAIN}`)) return lookup(name, options, done);
    process.nextTick(() => (options.all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4)));
  };
}

/** The domain must be known before the daemon has a port. */
export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Flags of a daemon that serves the domain, and what its clients call it. */
export async function named() {
  const { cert, key } = certificate();
  findNames();
  const port = await freePort();
  const domain = `${DOMAIN}:${port}`;
  return { domain, port, flags: ["--listen", `127.0.0.1:${port}`, "--tls-cert", cert, "--tls-key", key, "--e2b-domain", domain] };
}
