// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox, by E2B's own SDKs and by the wire itself.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { assert, equal, growthMax, run, test } from "./harness.mjs";
import { IN_GVISOR, fails, inside, sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const versions = await sdks();
const MIB = 1024 * 1024;
const HOME = ["", "home", "user"].join("/");

/** A request to /files as the wire has it. */
async function files(sandbox, query, init = {}) {
  const token = init.token === undefined ? { "x-access-token": sandbox.envdAccessToken } : {};
  const answer = await inside(daemon, sandbox.sandboxId, 49983, `/files?${new URLSearchParams(query)}`, {
    ...init, headers: { ...token, ...init.headers }, duplex: "half",
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  let json;
  try { json = JSON.parse(bytes); } catch { json = undefined; }
  return { status: answer.status, bytes, json, headers: answer.headers };
}

testEach(versions, "a file is written and read in every form", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const info = await sandbox.files.write("deep/er/a.txt", "hello");
    equal([info.name, info.path, info.type], ["a.txt", `${HOME}/deep/er/a.txt`, "file"]);
    equal(await sandbox.files.read("deep/er/a.txt"), "hello");
    equal(await sandbox.files.read("~/deep/er/a.txt"), "hello");
    equal(await sandbox.files.read(`${HOME}/deep/er/a.txt`), "hello");
    equal((await sandbox.commands.run("cat deep/er/a.txt; find deep deep/er/a.txt -maxdepth 0 -printf '%m %u\\n'")).stdout, "hello755 user\n644 user\n");
    const bytes = Uint8Array.from({ length: 70_000 }, (_, i) => i * 7);
    await sandbox.files.write("b.bin", bytes.buffer);
    equal(Buffer.compare(Buffer.from(await sandbox.files.read("b.bin", { format: "bytes" })), Buffer.from(bytes)), 0);
    equal((await (await sandbox.files.read("b.bin", { format: "blob" })).arrayBuffer()).byteLength, 70_000);
    await sandbox.files.write("c.bin", new Blob([bytes]));
    await sandbox.files.write("d.txt", new Blob(["streamed"]).stream());
    let streamed = "";
    for await (const piece of await sandbox.files.read("d.txt", { format: "stream" })) streamed += Buffer.from(piece).toString();
    equal(streamed, "streamed");
    await sandbox.files.write("deep/er/a.txt", "shorter".slice(0, 3));
    equal(await sandbox.files.read("deep/er/a.txt"), "sho");
    await sandbox.files.write("empty", "");
    equal(await sandbox.files.read("empty"), "");
    const several = await sandbox.files.write([
      { path: "m/one", data: "1" }, { path: "/tmp/two 'quoted\" name", data: "2" }, { path: "m/drei-ä€", data: "3" },
    ]);
    equal(several.map((each) => each.path), [`${HOME}/m/one`, "/tmp/two 'quoted\" name", `${HOME}/m/drei-ä€`]);
    equal(await sandbox.files.read("/tmp/two 'quoted\" name"), "2");
    equal(await sandbox.files.read("m/drei-ä€"), "3");
    await sandbox.files.write("~/of-root", "r", { user: "root" });
    equal(await sandbox.files.read("of-root", { user: "root" }), "r");
    await fails(sdk.SandboxError, sandbox.files.read("of-root"));
    if (IN_GVISOR) {
      await fails(sdk.SandboxError, sandbox.files.read("/proc/meminfo"));
    } else {
      assert((await sandbox.files.read("/proc/meminfo")).includes("MemTotal"), "files of /proc");
      await sandbox.files.write("/dev/shm/x", "shared");
      equal((await sandbox.commands.run("cat /dev/shm/x")).stdout, "shared");
    }
  });
});

testEach(versions, "files that are not there, or not files, are told apart", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const missing = await fails(sdk.NotFoundError, sandbox.files.read("not/there"));
    assert(missing.message.includes(`path '${HOME}/not/there' does not exist`), missing.message);
    const dir = await fails(sdk.InvalidArgumentError, sandbox.files.read("/tmp"));
    assert(dir.message.includes("path '/tmp' is a directory"), dir.message);
    await fails(sdk.InvalidArgumentError, sandbox.files.write("/tmp", "x"));
    await fails(sdk.NotFoundError, sandbox.files.list("/not/there"));
    await fails(sdk.InvalidArgumentError, sandbox.files.list("/etc/passwd"));
    await fails(sdk.NotFoundError, sandbox.files.getInfo("/not/there"));
    await fails(sdk.NotFoundError, sandbox.files.rename("/not/there", "/tmp/x"));
    await fails(sdk.AuthenticationError, sandbox.files.read("x", { user: "stranger" }));
    await fails(sdk.AuthenticationError, sandbox.files.list("/", { user: "stranger" }));
    equal(await sandbox.files.exists("/not/there"), false);
    equal(await sandbox.files.exists("/etc"), true);
    await sandbox.files.remove("/not/there");
    await fails(sdk.SandboxError, sandbox.files.remove("/etc/passwd"));
  });
});

testEach(versions, "directories are made, listed, renamed and removed", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    equal(await sandbox.files.makeDir("a/b/c"), true);
    equal(await sandbox.files.makeDir("a/b/c"), false);
    await sandbox.files.write("a/file", "12345");
    await fails(sdk.InvalidArgumentError, sandbox.files.makeDir("a/file"));
    await sandbox.commands.run("cd a; ln -s file link; ln -s nowhere dangling; ln -s /tmp away; chmod 640 file; mkfifo fifo || true");
    const names = (list) => list.map((entry) => entry.path.replace(`${HOME}/`, ""));
    equal(names(await sandbox.files.list("a", { depth: 2 })).filter((name) => !/fifo|dangling/.test(name)),
      ["a/away", "a/b", "a/b/c", "a/file", "a/link"]);
    equal(names(await sandbox.files.list("a")).filter((name) => !/fifo|dangling/.test(name)), ["a/away", "a/b", "a/file", "a/link"]);
    await fails(sdk.InvalidArgumentError, sandbox.files.list("a", { depth: 0 }));
    const file = await sandbox.files.getInfo("a/file");
    equal([file.name, file.type, file.size, file.mode, file.permissions, file.owner, file.group, file.symlinkTarget],
      ["file", "file", 5, 0o640, "-rw-r-----", "user", "user", undefined]);
    assert(Math.abs(Date.now() - file.modifiedTime.getTime()) < 600_000, "its time");
    const link = await sandbox.files.getInfo("a/link");
    equal([link.name, link.type, link.mode, link.symlinkTarget], ["link", "file", 0o640, `${HOME}/a/file`]);
    const dir = await sandbox.files.getInfo("a/b");
    equal([dir.type, dir.permissions, dir.mode], ["dir", "drwxr-xr-x", 0o755]);
    equal((await sandbox.files.getInfo("a/away")).symlinkTarget, "/tmp");
    await sandbox.commands.run("cd a; mkdir -m 1777 sticky; touch set; chmod 6711 set");
    const permissions = async (path) => (await sandbox.files.getInfo(path)).permissions;
    equal([await permissions("a/sticky"), await permissions("a/set"), await permissions("a/link")],
      ["dtrwxrwxrwx", "ugrwx--x--x", "Lrwxrwxrwx"]);
    if (IN_GVISOR) equal(await sandbox.files.exists("/dev/null"), false, "its /dev is inside only");
    else equal(await permissions("/dev/null"), "Dcrw-rw-rw-");
    const moved = await sandbox.files.rename("a/file", "new/place/file");
    equal(moved.path, `${HOME}/new/place/file`);
    equal(await sandbox.files.exists("a/file"), false);
    await sandbox.files.remove("a");
    equal(await sandbox.files.exists("a"), false);
    if (!IN_GVISOR) equal((await sandbox.files.list("/dev/shm")).length, 0);
  });
});

testEach(versions, "files anywhere are made by root and given to the user", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const owners = async (...paths) => (await sandbox.commands.run(`find ${paths.join(" ")} -maxdepth 0 -printf '%u %m\\n'`)).stdout.trim().split("\n");
    await sandbox.files.write("/srv/deep/new.txt", "mine");
    equal(await owners("/srv/deep", "/srv/deep/new.txt"), ["user 755", "user 644"]);
    await sandbox.commands.run("echo the old text > /etc/ours; chmod 600 /etc/ours; mkdir -m 700 /srv/closed", { user: "root" });
    await sandbox.files.write("/etc/ours", "new");
    equal(await owners("/etc/ours"), ["user 600"]);
    equal(await sandbox.files.read("/etc/ours"), "new");
    equal(await sandbox.files.makeDir("/opt/made/here"), true);
    equal(await owners("/opt/made", "/opt/made/here"), ["user 755", "user 755"]);
    await fails(sdk.SandboxError, sandbox.files.list("/srv/closed"));
  });
});

testEach(versions, "a directory has the size that its file system says", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    await sandbox.files.makeDir("made");
    const { stdout } = await sandbox.commands.run("find /usr made -maxdepth 0 -printf '%s\\n'");
    equal([(await sandbox.files.getInfo("/usr")).size, (await sandbox.files.getInfo("made")).size], stdout.trim().split("\n").map(Number));
  });
});

test("metadata is kept with a file, and replaced with it", async () => {
  const sdk = versions["2.51"];
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const info = await sandbox.files.write("m", "x", { metadata: { Source: "agent", turn: "7" } });
    equal(info.metadata, { source: "agent", turn: "7" });
    equal((await sandbox.files.getInfo("m")).metadata, { source: "agent", turn: "7" });
    equal((await sandbox.files.list("~")).find((entry) => entry.name === "m").metadata, { source: "agent", turn: "7" });
    await sandbox.files.rename("m", "n");
    equal((await sandbox.files.getInfo("n")).metadata, { source: "agent", turn: "7" });
    const again = await sandbox.files.write("n", "y");
    equal(again.metadata, undefined);
    equal((await sandbox.files.getInfo("n")).metadata ?? {}, {});
    for (const headers of [{ ["x-metadata-" + "k".repeat(247)]: "v" }, { "x-metadata-k": "v".repeat(4096) }, { "x-metadata-k": "\xe4" }])
      equal((await files(sandbox, { path: "n" }, { method: "POST", body: "x",
        headers: { "content-type": "application/octet-stream", ...headers } })).status, 400);
  });
});

test("parts of a file, packed bodies, and what is malformed", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    const octets = { "content-type": "application/octet-stream" };
    const put = (query, body, headers = octets) => files(sandbox, query, { method: "POST", body, headers });
    const data = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));
    equal((await put({ path: "p" }, gzipSync(data), { ...octets, "content-encoding": "gzip" })).status, 200);
    const whole = await files(sandbox, { path: "p" });
    equal([whole.status, whole.bytes.equals(data), whole.headers.get("content-length")], [200, true, "300000"]);
    for (const [range, from, to] of [["bytes=0-0", 0, 1], ["bytes=100-199", 100, 200], ["bytes=299990-", 299990, 300000],
      ["bytes=-10", 299990, 300000], ["bytes=0-999999", 0, 300000], ["bytes=-999999", 0, 300000]]) {
      const part = await files(sandbox, { path: "p" }, { headers: { range } });
      equal([part.status, part.bytes.equals(data.subarray(from, to)), part.headers.get("content-range")],
        [206, true, `bytes ${from}-${to - 1}/300000`], range);
    }
    for (const range of ["bytes=300000-", "bytes=-0"])
      equal((await files(sandbox, { path: "p" }, { headers: { range } })).status, 416, range);
    for (const range of ["bytes=5-2", "lines=1-2", "bytes=x"])
      equal((await files(sandbox, { path: "p" }, { headers: { range } })).status, 200, range);
    const refused = [
      [{}, "x", octets], [{ path: "q" }, "x", { "content-type": "text/plain" }], [{ path: "q" }, "x", {}],
      [{ path: "q" }, "not gzip", { ...octets, "content-encoding": "gzip" }],
      [{ path: "q" }, gzipSync(data).subarray(0, 100), { ...octets, "content-encoding": "gzip" }],
      [{ path: "q" }, Buffer.concat([gzipSync("a"), Buffer.from("b")]), { ...octets, "content-encoding": "gzip" }],
      [{ path: "q" }, "x", { ...octets, "content-encoding": "br" }],
      [{ path: "a\0b" }, "x", octets], [{ path: "x".repeat(5000) }, "x", octets],
      [{}, "x", { "content-type": "multipart/form-data" }],
      [{}, "--b\r\n\r\nx", { "content-type": "multipart/form-data; boundary=b" }],
      [{}, '--b\r\ncontent-disposition: form-data; name="file"; filename="z"\r\n\r\nx', { "content-type": "multipart/form-data; boundary=b" }],
      [{}, '--b\r\ncontent-disposition: form-data; name="file"\r\n\r\nx\r\n--b--', { "content-type": "multipart/form-data; boundary=b" }],
    ];
    for (const [query, body, headers] of refused) {
      const answer = await put(query, body, headers);
      equal([answer.status, answer.json?.code], [400, 400], JSON.stringify([query, headers]).slice(0, 100));
    }
    const form = new FormData();
    form.append("file", new Blob(["1"]), "same");
    form.append("file", new Blob(["2"]), "same");
    equal((await files(sandbox, {}, { method: "POST", body: form })).status, 400);
    const other = new FormData();
    other.append("note", "skipped");
    other.append("file", new Blob(["\r\n--almost a boundary\r\n-"]), "nested/path/f");
    const answer = await files(sandbox, { username: "user" }, { method: "POST", body: other });
    equal(answer.json, [{ name: "f", path: `${HOME}/nested/path/f`, type: "file" }]);
    equal((await files(sandbox, { path: "nested/path/f" })).bytes.toString(), "\r\n--almost a boundary\r\n-");
  });
});

test("signed addresses open what they say, for as long as they say", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    const token = sandbox.envdAccessToken;
    const sign = (path, op, user, exp) =>
      "v1_" + createHash("sha256").update([path, op, user, token, ...(exp ? [exp] : [])].join(":")).digest("base64").replace(/=+$/, "");
    const now = Math.floor(Date.now() / 1000);
    await sandbox.files.write("s.txt", "signed");
    const get = (query) => files(sandbox, query, { token: null });
    const error = async (query) => {
      const answer = await get(query);
      return [answer.status, answer.json];
    };
    equal((await get({ path: "s.txt", username: "user", signature: sign("s.txt", "read", "user") })).bytes.toString(), "signed");
    equal((await get({ path: "s.txt", signature: sign("s.txt", "read", "") })).bytes.toString(), "signed");
    const later = String(now + 600);
    equal((await get({ path: "s.txt", signature: sign("s.txt", "read", "", later), signature_expiration: later })).status, 200);
    const past = String(now - 5);
    equal(await error({ path: "s.txt", signature: sign("s.txt", "read", "", past), signature_expiration: past }),
      [401, { code: 401, message: "signature is already expired" }]);
    equal(await error({ path: "s.txt" }), [401, { code: 401, message: "missing signature query parameter" }]);
    const invalid = [401, { code: 401, message: "invalid signature" }];
    equal(await error({ path: "s.txt", signature: sign("s.txt", "write", "") }), invalid);
    equal(await error({ path: "other", signature: sign("s.txt", "read", "") }), invalid);
    equal(await error({ path: "s.txt", username: "root", signature: sign("s.txt", "read", "user") }), invalid);
    equal(await error({ path: "s.txt", signature: sign("s.txt", "read", "", past), signature_expiration: later }), invalid);
    equal(await error({ path: "s.txt", signature: sign("s.txt", "read", "", "soon"), signature_expiration: "soon" }),
      [401, { code: 401, message: "signature is already expired" }]);
    // In a query a plus is a blank, and not everybody knows.
    const path = Array.from({ length: 1000 }, (_, i) => `s${i}.txt`).find((each) => sign(each, "read", "").includes("+"));
    await sandbox.files.write(path, "plus");
    const unescaped = `/files?path=${path}&signature=${sign(path, "read", "")}`;
    equal(await (await inside(daemon, sandbox.sandboxId, 49983, unescaped)).text(), "plus");
    if (!process.env.E2B_TEST_TLS) equal(await (await fetch(daemon.url + unescaped)).text(), "plus", "and by the signature alone");
    const put = await files(sandbox, { path: "up.txt", signature: sign("up.txt", "write", "") },
      { method: "POST", token: null, body: "up", headers: { "content-type": "application/octet-stream" } });
    equal(put.status, 200);
    equal(await sandbox.files.read("up.txt"), "up");
    const wrong = await files(sandbox, { path: "s.txt" }, { headers: { "x-access-token": "wrong" } });
    equal([wrong.status, wrong.json.message], [401, "access token present in header but does not match"]);
  });
});

test("1 GiB goes up and down, and the daemon stays small", async () => {
  const blocks = 1024;
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.process.pid}/status`, "utf8"))[1]) * 1024;
  await withSandbox(versions["2.51"], daemon, { timeoutMs: 300_000 }, async (sandbox) => {
    const block = Buffer.alloc(MIB, "0123456789abcdef");
    const [sent, got] = [createHash("sha256"), createHash("sha256")];
    let [number, size, most] = [0, 0, 0];
    const body = new ReadableStream({
      pull(controller) {
        if (number === blocks) return controller.close();
        block.writeUInt32LE(number++); // no two blocks are the same
        sent.update(block);
        controller.enqueue(Buffer.from(block));
      },
    });
    const before = rss();
    const watch = setInterval(() => { most = Math.max(most, rss()); }, 20);
    await sandbox.files.write("large", body, { requestTimeoutMs: 0 });
    for await (const piece of await sandbox.files.read("large", { format: "stream", requestTimeoutMs: 0 })) {
      got.update(piece);
      size += piece.length;
    }
    clearInterval(watch);
    equal([size, got.digest("hex")], [blocks * MIB, sent.digest("hex")]);
    assert(most - before < growthMax(24), `the daemon grew by ${(most - before) / MIB} MiB`);
  });
}, 120_000);

test("an upload that breaks off leaves the daemon and the sandbox well", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    for (let round = 0; round < 5; round++) {
      const stop = new AbortController();
      const body = new ReadableStream({
        async pull(controller) {
          controller.enqueue(Buffer.alloc(MIB));
          await new Promise((go) => setTimeout(go, 5));
        },
      });
      const headers = { "x-access-token": sandbox.envdAccessToken, "content-type": "application/octet-stream" };
      const upload = inside(daemon, sandbox.sandboxId, 49983, "/files?path=broken", { method: "POST", body, duplex: "half", headers, signal: stop.signal });
      setTimeout(() => stop.abort(), 30 + 20 * round);
      await upload.then(() => { throw new Error("it ended"); }, () => {});
    }
    await sandbox.files.write("after", "fine");
    equal(await sandbox.files.read("after"), "fine");
  });
});

testEach(versions, "a file that does not fit is refused for want of space, and the sandbox goes on", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    if (IN_GVISOR) { // what is mounted inside is not what files are
      await sandbox.files.write("/dev/shm/small", "of the tree");
      equal((await sandbox.commands.run("echo /dev/shm/*")).stdout, "/dev/shm/*\n");
      return;
    }
    const large = new Uint8Array(80 * MIB); // the sandbox's shared memory has 64
    await fails(sdk.NotEnoughSpaceError, sandbox.files.write("/dev/shm/large", large.buffer));
    const answer = await files(sandbox, { path: "/dev/shm/large" }, { method: "POST", body: large, headers: { "content-type": "application/octet-stream" } });
    equal([answer.status, answer.json.code], [507, 507]);
    await sandbox.files.remove("/dev/shm/large");
    await sandbox.files.write("/dev/shm/small", "fits");
    equal((await sandbox.commands.run("cat /dev/shm/small; ls /dev/shm")).stdout, "fitssmall\n");
  });
});

test("the environment of a sandbox can be looked at", async () => {
  await withSandbox(versions["2.51"], daemon, { envs: { A: "1" } }, async (sandbox) => {
    const headers = { "x-access-token": sandbox.envdAccessToken };
    equal(await (await inside(daemon, sandbox.sandboxId, 49983, "/envs", { headers })).json(), { A: "1" });
    equal((await inside(daemon, sandbox.sandboxId, 49983, "/envs")).status, 401);
  });
});

test("pages of any origin may talk to a sandbox, and to nothing else", async () => {
  const ask = async (path, headers, wanted) => {
    const answer = await fetch(daemon.url + path, {
      method: "OPTIONS",
      headers: { origin: "https://page.test", "access-control-request-method": "POST", "access-control-request-headers": wanted, ...headers },
    });
    await answer.arrayBuffer();
    return [answer.status, answer.headers.get("access-control-allow-origin"), answer.headers.get("access-control-allow-headers")];
  };
  const yes = [204, "*", "*, authorization"];
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    const there = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983" };
    equal(await ask("/files?path=a", there, "content-type"), yes);
    equal(await ask("/filesystem.Filesystem/Stat", {}, "content-type,e2b-sandbox-id,e2b-sandbox-port,x-access-token"), yes);
    equal(await ask("/files?path=a&signature=v1_x", {}, "content-type"), yes);
    for (const [path, headers, wanted] of [
      ["/files?path=a", {}, "content-type"], ["/sandboxes", {}, "x-api-key"], ["/sandboxes", {}, "e2b-sandbox-id"],
      ["/cay.v1.SandboxService/CreateSession", {}, "content-type,e2b-sandbox-id"], ["/nothing", there, "content-type"],
    ]) {
      const [status, origin, allowed] = await ask(path, headers, wanted);
      assert(status >= 400 && allowed === null && (origin === null || path === "/nothing"), `${path}: ${status} ${origin}`);
    }
    const origins = [];
    for (const [path, init] of [
      ["/files?path=cors", { method: "POST", body: "x", headers: { "content-type": "application/octet-stream" } }],
      ["/files?path=cors", {}], ["/files?path=missing", {}], ["/health", {}],
      ["/filesystem.Filesystem/Stat", { method: "POST", body: '{"path":"cors"}', headers: { "content-type": "application/json" } }],
    ]) {
      const answer = await inside(daemon, sandbox.sandboxId, 49983, path,
        { ...init, headers: { "x-access-token": sandbox.envdAccessToken, ...init.headers } });
      await answer.arrayBuffer();
      origins.push([answer.status, answer.headers.get("access-control-allow-origin")]);
    }
    equal(origins, [[200, "*"], [200, "*"], [404, "*"], [204, "*"], [200, "*"]]);
    const control = await fetch(`${daemon.url}/v2/sandboxes`, { headers: { "x-api-key": daemon.key, origin: "https://page.test" } });
    await control.arrayBuffer();
    equal([control.status, control.headers.get("access-control-allow-origin")], [200, null]);
  });
});

test("a sandbox says what it uses", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    const answer = await inside(daemon, sandbox.sandboxId, 49983, "/metrics", { headers: { "x-access-token": sandbox.envdAccessToken } });
    const metrics = await answer.json();
    equal(Object.keys(metrics).sort(), ["cpu_count", "cpu_used_pct", "disk_total", "disk_used", "mem_cache", "mem_total", "mem_total_mib",
      "mem_used", "mem_used_mib", "ts"]);
    assert(metrics.cpu_count >= 1 && metrics.mem_total > metrics.mem_used && Math.abs(metrics.ts - Date.now() / 1000) < 60, JSON.stringify(metrics));
    equal((await inside(daemon, sandbox.sandboxId, 49983, "/metrics")).status, 401);
  });
});

await run(daemon);
