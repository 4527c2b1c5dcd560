// SPDX-License-Identifier: Apache-2.0
// What nobody with good intentions sends to the E2B door: other people's ids, keys and tokens, paths
// that want out, names and sizes beyond all limits. All of it is refused, and the daemon goes on.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, equal, run, test } from "./harness.mjs";
import { IN_GVISOR, api, envelope, inside, sdks, startE2b, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const { "2.51": sdk } = await sdks();
const HOME = ["", "home", "user"].join("/");
const LONG = "x".repeat(5_000);
const OCTETS = { "content-type": "application/octet-stream" };

function sign(token, path, operation, user = "", expiration) {
  const text = [path, operation, user, token, ...(expiration ? [expiration] : [])].join(":");
  return `v1_${createHash("sha256").update(text).digest("base64").replace(/=+$/, "")}`;
}

function files(sandbox, query, init = {}) {
  return inside(daemon, sandbox.sandboxId, 49983, `/files?${new URLSearchParams(query)}`, init);
}

async function rpc(sandbox, method, message, headers = {}) {
  const answer = await inside(daemon, sandbox.sandboxId, 49983, method, {
    method: "POST", body: JSON.stringify(message), headers: { "content-type": "application/json", "x-access-token": sandbox.envdAccessToken, ...headers },
  });
  return { status: answer.status, json: await answer.json() };
}

test("what another owner has is not there, by any call", async () => {
  await withSandbox(sdk, daemon, { timeoutMs: 60_000 }, async (sandbox) => {
    const id = sandbox.sandboxId;
    const snapshot = await sandbox.createSnapshot({ name: "mine" });
    const stranger = { "x-api-key": daemon.otherKey };
    for (const [method, path, body] of [
      ["GET", `/sandboxes/${id}`], ["DELETE", `/sandboxes/${id}`], ["POST", `/sandboxes/${id}/connect`, {}], ["POST", `/v2/sandboxes/${id}/connect`, {}],
      ["POST", `/sandboxes/${id}/resume`, {}], ["POST", `/sandboxes/${id}/timeout`, { timeout: 1 }], ["POST", `/sandboxes/${id}/refreshes`, { duration: 1 }],
      ["POST", `/sandboxes/${id}/pause`, {}], ["POST", `/sandboxes/${id}/fork`, {}], ["POST", `/sandboxes/${id}/snapshots`, {}],
      ["GET", `/sandboxes/${id}/metrics`], ["GET", `/sandboxes/${id}/logs`], ["GET", `/v2/sandboxes/${id}/logs`], ["PUT", `/sandboxes/${id}/network`, {}],
      ["DELETE", `/templates/${encodeURIComponent(snapshot.snapshotId)}`], ["DELETE", "/templates/mine"], ["GET", "/templates/aliases/mine"],
      ["POST", "/v2/sandboxes", { templateID: snapshot.snapshotId }], ["POST", "/v2/sandboxes", { templateID: "mine" }],
    ]) {
      const answer = await api(daemon, method, path, body, stranger);
      equal([answer.status, answer.json?.code], [404, 404], `${method} ${path}`);
    }
    for (const path of ["/sandboxes", "/v2/sandboxes", "/snapshots", `/snapshots?sandboxID=${id}`, "/snapshots?name=mine", "/snapshots?name=alice%2Fmine"])
      equal((await api(daemon, "GET", path, undefined, stranger)).json, [], path);
    assert(await sandbox.isRunning(), "it is as it was");
    equal(await sdk.Sandbox.deleteSnapshot(snapshot.snapshotId, daemon.options), true);
  });
});

test("a token opens its own sandbox and nothing else", async () => {
  await withSandbox(sdk, daemon, {}, async (one) => {
    await withSandbox(sdk, daemon, {}, async (two) => {
      await two.files.write("s.txt", "secret");
      for (const token of [one.envdAccessToken, "", "x", daemon.key, two.envdAccessToken.slice(0, -1), `${two.envdAccessToken}x`, two.envdAccessToken.toUpperCase(), LONG]) {
        for (const method of ["/process.Process/List", "/filesystem.Filesystem/Stat", "/filesystem.Filesystem/ListDir"])
          equal((await rpc(two, method, { path: "/" }, { "x-access-token": token })).status, 401, `${method} ${token.slice(0, 50)}`);
        equal((await files(two, { path: "s.txt" }, { headers: { "x-access-token": token } })).status, 401);
        equal((await files(two, { path: "n.txt" }, { method: "POST", body: "x", headers: { ...OCTETS, "x-access-token": token } })).status, 401);
      }
      equal((await files(two, { path: "s.txt", signature: sign(one.envdAccessToken, "s.txt", "read") })).status, 401, "signed for another sandbox");
      const right = sign(two.envdAccessToken, "s.txt", "read");
      equal(await (await files(two, { path: "s.txt", signature: right })).text(), "secret");
      for (const wrong of ["", "v1_", right.slice(0, -1), `${right}=`, right.replace("v1_", "v2_"), right.toLowerCase(), LONG, "\u0000", "%00"])
        equal((await files(two, { path: "s.txt", signature: wrong })).status, 401, wrong.slice(0, 60));
      for (const time of ["-1", "0", "1", "99999999999999999999", "1e99", " 1", "0x7fffffff", "2e9", ""]) {
        const answer = await files(two, { path: "s.txt", signature: sign(two.envdAccessToken, "s.txt", "read", "", time), signature_expiration: time });
        assert(answer.status === 401 || (time === "" && answer.status === 200), time, answer.status);
      }
      equal(await two.files.exists("n.txt"), false);
    });
  });
});

test("paths lead nowhere but into the sandbox", async () => {
  const secret = join(daemon.folder, "secret.txt");
  writeFileSync(secret, "the host's");
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const headers = { "x-access-token": sandbox.envdAccessToken };
    await sandbox.commands.run(`ln -s '${secret}' absolute; ln -s '../../../../../../../..${secret}' relative; ln -s / root; ln -s loop loop; ln -s /proc/1/root init`);
    const up = "../".repeat(40);
    for (const path of [secret, up + secret, "absolute", "relative", `root${secret}`, `/proc/1/root${secret}`, `init${secret}`, `/proc/self/root${secret}`,
      `/proc/self/cwd/${up}${secret}`, `/proc/thread-self/root${secret}`, "/proc/1/environ", "/proc/1/mem", "/dev/fd/3", "/proc/self/fd/3", "loop", `//${secret}`, `~/${up}${secret}`, `~root/${up}${secret}`]) {
      for (const username of ["root", "user"]) {
        const answer = await files(sandbox, { path, username }, { headers });
        assert(answer.status >= 400 && answer.status < 500, `${path} as ${username}`, answer.status);
        assert(!(await answer.text()).includes("the host's"), path);
      }
    }
    for (const path of [secret, `${up}${secret}`, "absolute", "relative"]) {
      const answer = await files(sandbox, { path, username: "root" }, { method: "POST", body: "overwritten", headers: { ...headers, ...OCTETS } });
      assert([200, 400, 403, 404].includes(answer.status), path, answer.status);
      await rpc(sandbox, "/filesystem.Filesystem/Move", { source: path, destination: "/tmp/moved" }, { authorization: `Basic ${btoa("root:")}` });
      await rpc(sandbox, "/filesystem.Filesystem/Remove", { path }, { authorization: `Basic ${btoa("root:")}` });
    }
    equal(readFileSync(secret, "utf8"), "the host's", "nobody was there");
    for (const path of ["a\0b", LONG, `/${"d/".repeat(3000)}`, "\ud800"])
      for (const method of ["Stat", "ListDir", "MakeDir", "Remove"]) {
        const answer = await rpc(sandbox, `/filesystem.Filesystem/${method}`, { path });
        assert(answer.status >= 400 && answer.status < 500 && typeof answer.json.code === "string", method, path.slice(0, 20), answer);
      }
    const mounted = IN_GVISOR ? [] : ["/proc", "/dev", `${HOME}/root/dev`]; // there, they are mounted inside
    for (const path of ["/", "/..", "/.", "//", ...mounted]) {
      const answer = await rpc(sandbox, "/filesystem.Filesystem/Remove", { path }, { authorization: `Basic ${btoa("root:")}` });
      assert(answer.status >= 400 && answer.status < 500, path, answer);
    }
    equal((await sandbox.commands.run("echo alive")).stdout, "alive\n");
    const multipart = (name) => `--b\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\n\r\nx\r\n--b--\r\n`;
    for (const name of [`${up}${secret}`, secret, "absolute", "..", ".", "/", "", "a\0b", LONG, "dir/"]) {
      const answer = await files(sandbox, { username: "user" }, { method: "POST", body: multipart(name), headers: { ...headers, "content-type": "multipart/form-data; boundary=b" } });
      assert(answer.status < 500, name.slice(0, 40), answer.status);
    }
    equal(readFileSync(secret, "utf8"), "the host's", "nor by a form");
  });
});

test("forms that are none are refused at any size", async () => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const part = (rest) => `--b\r\ncontent-disposition: form-data; ${rest}`;
    for (const [type, body] of [
      ["multipart/form-data; boundary=", "x"], [`multipart/form-data; boundary=${"b".repeat(300)}`, "x"], ["multipart/form-data; boundary=b", ""],
      ["multipart/form-data; boundary=b", "no boundary at all"], ["multipart/form-data; boundary=b", part('name="file"; filename="f"\r\n\r\nno end')],
      ["multipart/form-data; boundary=b", part('name="file"; filename="f"\r\n\r\nx\r\n--b')], ["multipart/form-data; boundary=b", `--b\r\n${LONG.repeat(20)}`],
      ["multipart/form-data; boundary=b", part(`name="file"; filename="${LONG.repeat(20)}"\r\n\r\nx\r\n--b--`)], ["multipart/form-data; boundary=b", part('name="file"; filename="f\r\n\r\nx\r\n--b--')],
      ["multipart/mixed; boundary=b", part('name="file"; filename="f"\r\n\r\nx\r\n--b--')], ["multipart/form-data; boundary=b", "--b\r\n".repeat(2_000)],
      ["multipart/form-data; boundary=b", `--b\r\n${"a: b\r\n".repeat(5_000)}\r\nx\r\n--b--`],
    ]) {
      const answer = await files(sandbox, {}, { method: "POST", body, headers: { "x-access-token": sandbox.envdAccessToken, "content-type": type } });
      equal([answer.status, (await answer.json()).code], [400, 400], JSON.stringify([type, body]).slice(0, 120));
    }
    equal((await sandbox.files.list("~")).filter(({ name }) => name.startsWith("x")).length, 0);
  });
});

test("users that are none, in every place", async () => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const headers = { "x-access-token": sandbox.envdAccessToken };
    for (const username of ["nobody-here", "../root", "root\n", "root:x", "us er", LONG, "-1", "4294967296", "ROOT"]) {
      equal((await files(sandbox, { path: "/etc/passwd", username }, { headers })).status, 401, username.slice(0, 40));
      const answer = await rpc(sandbox, "/filesystem.Filesystem/Stat", { path: "/" }, { authorization: `Basic ${Buffer.from(`${username}:`).toString("base64")}` });
      // What comes after a colon is a password, which nobody asks for.
      if (username !== "root:x") equal([answer.status, answer.json.code], [401, "unauthenticated"], username.slice(0, 40));
    }
    for (const authorization of ["Basic", "Basic ", "Basic !!!", "Bearer x", "Basic /////w==", `Basic ${"A".repeat(6_000)}`])
      equal((await rpc(sandbox, "/filesystem.Filesystem/Stat", { path: "/" }, { authorization })).status, 401, authorization.slice(0, 30));
  });
});

test("metadata and variables have limits", async () => {
  const pairs = (count, size) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "x".repeat(size)]));
  for (const body of [{ metadata: pairs(2_000, 10) }, { metadata: pairs(1, 100_000) }, { metadata: { [LONG]: "x" } }, { metadata: { "": "x" } }, { metadata: { "a\0": "x" } }, { metadata: { a: "x\n" } },
    { envVars: pairs(20_000, 100) }, { envVars: { "": "x" } }, { envVars: { "A\0": "x" } }, { envVars: { A: "x\0" } }, { metadata: pairs(100, 100_000) },
    { metadata: { "cay.e2b/name": "1" } }, { metadata: { "cay.hidden": "e2b-snapshot" } }]) {
    const answer = await api(daemon, "POST", "/v2/sandboxes", { timeout: 60, ...body });
    assert([400, 413].includes(answer.status), JSON.stringify(body).slice(0, 60), answer.status, answer.text.slice(0, 200));
    assert(!/labels/.test(answer.text), "what is not theirs to know", answer.text.slice(0, 200));
    if (answer.json?.sandboxID) await api(daemon, "DELETE", `/sandboxes/${answer.json.sandboxID}`);
  }
  equal((await api(daemon, "GET", "/v2/sandboxes")).json, []);
  for (const query of [`metadata=${"a%3Db%26".repeat(3_000)}`, `metadata=${"x".repeat(20_000)}`, `nextToken=${LONG}`, `template=${LONG}`, `startedAfter=${LONG}`]) {
    const { status } = await api(daemon, "GET", `/v2/sandboxes?${query}`);
    assert(status < 500, query.slice(0, 30), status);
  }
});

test("ids and names that are none are not found", async () => {
  for (const id of ["..", "%2e%2e", "a%2Fb", "a%00b", "A", "x".repeat(300), "%", "%zz", "-", "i%20", encodeURIComponent("ü")]) {
    for (const [method, path] of [["GET", `/sandboxes/${id}`], ["DELETE", `/sandboxes/${id}`], ["POST", `/sandboxes/${id}/connect`], ["POST", `/sandboxes/${id}/fork`],
      ["DELETE", `/templates/${id}`], ["GET", `/templates/aliases/${id}`]]) {
      const { status } = await api(daemon, method, path, method === "POST" ? {} : undefined);
      assert([400, 404, 405].includes(status), `${method} ${path}`.slice(0, 80), status);
    }
  }
  for (const templateID of ["..", "a/b/c", "/", "a:b:c", "x".repeat(500), "UPPER/lower:tag", "a\0b", ":"])
    assert([400, 404].includes((await api(daemon, "POST", "/v2/sandboxes", { templateID })).status), templateID.slice(0, 40));
});

test("streams of nonsense end with an error, and nothing stays behind", async () => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const headers = { "content-type": "application/connect+json", "x-access-token": sandbox.envdAccessToken };
    for (const [method, message] of [["/process.Process/Start", { process: { cmd: "" } }], ["/process.Process/Connect", { process: { pid: -1 } }],
      ["/filesystem.Filesystem/WatchDir", { path: "/not/there" }]]) {
      for (const body of [envelope("[]"), envelope("{".repeat(2_000)), envelope('{"a":'.repeat(500)), envelope("\ud800"), Buffer.alloc(70_000, 0xff), Buffer.alloc(3), envelope(message)]) {
        const answer = await inside(daemon, sandbox.sandboxId, 49983, method, { method: "POST", body, headers });
        const bytes = Buffer.from(await answer.arrayBuffer());
        equal([answer.status, bytes[0]], [200, 2], `${method} ${body.subarray(5, 40)}`);
        assert(JSON.parse(bytes.subarray(5)).error.code, bytes.toString());
      }
    }
    const argument = "x".repeat(3_000_000);
    const answer = await inside(daemon, sandbox.sandboxId, 49983, "/process.Process/Start",
      { method: "POST", body: envelope({ process: { cmd: "/bin/echo", args: [argument] } }), headers });
    assert([200, 413].includes(answer.status), answer.status);
    await answer.arrayBuffer();
    equal((await sandbox.commands.list()).length, 0);
    equal((await sandbox.commands.run("echo alive")).stdout, "alive\n");
  });
});

await run(daemon);
