// SPDX-License-Identifier: Apache-2.0
// Commands and terminals in a sandbox, by E2B's own SDKs.
import { assert, equal, run, test, throws } from "./harness.mjs";
import { envelope, fails, inside, sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const versions = await sdks();

/** Waits until `done` says so. */
async function until(done, what) {
  for (const end = Date.now() + 60_000; !(await done()); await new Promise((go) => setTimeout(go, 10)))
    assert(Date.now() < end, `still waiting: ${what}`);
}

/** One call of the wire itself. */
async function rpc(sandbox, method, message, headers = {}) {
  const answer = await inside(daemon, sandbox.sandboxId, 49983, method, {
    method: "POST", body: JSON.stringify(message),
    headers: { "content-type": "application/json", "x-access-token": sandbox.envdAccessToken, ...headers },
  });
  return { status: answer.status, json: await answer.json() };
}

testEach(versions, "a command runs, with its output, exit code, environment, directory and user", async (sdk) => {
  await withSandbox(sdk, daemon, { envs: { OF: "sandbox", BOTH: "sandbox" } }, async (sandbox) => {
    const seen = [];
    const result = await sandbox.commands.run("echo out; echo err >&2; exit 0", {
      onStdout: (text) => { seen.push(["out", text]); }, onStderr: (text) => { seen.push(["err", text]); },
    });
    equal([result.exitCode, result.stdout, result.stderr], [0, "out\n", "err\n"]);
    equal(seen.sort(), [["err", "err\n"], ["out", "out\n"]]);
    const env = await sandbox.commands.run("echo $OF $BOTH $CALL $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID; echo $HOME $USER $LOGNAME; pwd; id -u",
      { envs: { BOTH: "call", CALL: "call" } });
    equal(env.stdout, `sandbox call call true ${sandbox.sandboxId} ${(await sandbox.getInfo()).templateId}\n/home/user user user\n/home/user\n1000\n`);
    equal((await sandbox.commands.run("id -u; pwd; echo $HOME", { user: "root" })).stdout, "0\n/root\n/root\n");
    equal((await sandbox.commands.run("pwd", { cwd: "/tmp" })).stdout, "/tmp\n");
    await sandbox.files.makeDir("be/low");
    for (const cwd of ["be/low", "~/be/low", "./be/../be/low"])
      equal((await sandbox.commands.run("pwd", { cwd })).stdout, (await sandbox.commands.run("echo ~/be/low")).stdout, cwd);
    const failed = await fails(sdk.CommandExitError, sandbox.commands.run("echo partly; exit 3"));
    equal([failed.exitCode, failed.stdout, failed.error], [3, "partly\n", "exit status 3"]);
    equal((await fails(sdk.CommandExitError, sandbox.commands.run("no-such-program"))).exitCode, 127);
    const missing = await fails(sdk.InvalidArgumentError, sandbox.commands.run("pwd", { cwd: "/not/there" }));
    assert(missing.message.includes("cwd '/not/there' does not exist"), missing.message);
    const stranger = await fails(sdk.AuthenticationError, sandbox.commands.run("id", { user: "stranger" }));
    assert(stranger.message.includes("invalid username: 'stranger'"), stranger.message);
    equal((await sandbox.commands.run("printf 'h\\303\\244\\342\\202\\254'")).stdout, "hä€");
  });
});

testEach(versions, "a background command is listed, connected to, signalled and gone", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const handle = await sandbox.commands.run("echo begun; sleep 1000", { background: true });
    await until(() => handle.stdout === "begun\n", "its output");
    const [entry] = (await sandbox.commands.list()).filter((entry) => entry.pid === handle.pid);
    equal([entry.cmd, entry.args], ["/bin/bash", ["-l", "-c", "echo begun; sleep 1000"]]);
    await sandbox.commands.run(`kill -0 ${handle.pid}`);
    const again = await sandbox.commands.connect(handle.pid);
    equal(again.pid, handle.pid);
    await until(() => again.stdout === "begun\n", "the output again");
    assert(await sandbox.commands.kill(handle.pid), "it was killed");
    for (const each of [handle, again]) {
      const ended = await fails(sdk.CommandExitError, each.wait());
      equal([ended.exitCode, ended.error], [-1, "signal: killed"]);
    }
    await fails(sdk.CommandExitError, sandbox.commands.run(`kill -0 ${handle.pid}`));
    equal(await sandbox.commands.kill(handle.pid), false);
    equal((await sandbox.commands.list()).length, 0);
    const late = await sandbox.commands.connect(handle.pid);
    equal((await fails(sdk.CommandExitError, late.wait())).exitCode, -1);
    const none = await fails(sdk.NotFoundError, sandbox.commands.connect(99999));
    assert(none.message.includes("process with pid 99999 not found"), none.message);
    equal(await sandbox.commands.kill(99999), false);
    await fails(sdk.NotFoundError, sandbox.commands.sendStdin(99999, "x"));
  });
});

testEach(versions, "input goes to a command that takes it", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const cat = await sandbox.commands.run("cat; echo end", { background: true, stdin: true });
    await sandbox.commands.sendStdin(cat.pid, "one\n");
    await until(() => cat.stdout === "one\n", "an echo");
    await sandbox.commands.sendStdin(cat.pid, "two\n");
    await sandbox.commands.closeStdin(cat.pid);
    equal((await cat.wait()).stdout, "one\ntwo\nend\n");
    const over = await fails(sdk.NotFoundError, sandbox.commands.sendStdin(cat.pid, "three\n"));
    assert(over.message.includes(`process with pid ${cat.pid} not found`), over.message);
    // More than any queue holds, to one who reads late: the call waits for it.
    const late = await sandbox.commands.run("sleep 1; wc -c", { background: true, stdin: true });
    const much = "x".repeat(1_500_000);
    for (let i = 0; i < 2; i++) await sandbox.commands.sendStdin(late.pid, much);
    await sandbox.commands.closeStdin(late.pid);
    equal((await late.wait()).stdout.trim(), "3000000");
    const never = await sandbox.commands.run("sleep 1000", { background: true, stdin: true });
    await fails(sdk.TimeoutError, sandbox.commands.sendStdin(never.pid, much, { requestTimeoutMs: 500 }));
    const waiting = fails(sdk.NotFoundError, sandbox.commands.sendStdin(never.pid, much));
    await never.kill();
    await waiting;
    const deaf = await sandbox.commands.run("cat; sleep 1000", { background: true, stdin: false });
    await fails(sdk.SandboxError, sandbox.commands.sendStdin(deaf.pid, "x"));
    await deaf.kill();
    const answer = await rpc(sandbox, "/process.Process/SendSignal", { process: { pid: cat.pid }, signal: "SIGNAL_SIGTERM" });
    equal([answer.status, answer.json.code], [404, "not_found"]);
  });
});

testEach(versions, "the client's time limit ends the command", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    await fails(sdk.TimeoutError, sandbox.commands.run("sleep 987", { timeoutMs: 300 }));
    await until(async () => (await sandbox.commands.list()).length === 0, "its end");
    await fails(sdk.CommandExitError, sandbox.commands.run("ps | grep 'sleep 98[7]'"));
  });
});

testEach(versions, "a client that goes away leaves the command running", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const handle = await sandbox.commands.run("yes unread | head -c 8000000 >&2; echo over; cat", { background: true, stdin: true });
    await handle.disconnect();
    const back = await sandbox.commands.connect(handle.pid);
    await until(() => back.stdout.endsWith("over\n"), "the end of what nobody read");
    await sandbox.commands.closeStdin(handle.pid);
    equal((await back.wait()).exitCode, 0);
  });
});

testEach(versions, "all of a large output comes, at the pace of its reader", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const bytes = 24_000_000;
    let got = 0;
    const result = await sandbox.commands.run(`yes 0123456789abcde | head -c ${bytes}`, {
      onStdout: (text) => { got += text.length; }, timeoutMs: 0,
    });
    equal([got, result.stdout.length], [bytes, bytes]);
    assert(result.stdout.startsWith("0123456789abcde\n0") && result.stdout.endsWith("\n0123456789abcde\n"), "in order");
  });
});

testEach(versions, "a terminal takes keys, changes its size and ends", async (sdk) => {
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    let shown = "";
    const pty = await sandbox.pty.create({
      cols: 71, rows: 23, envs: { PS1: "ready> " }, onData: (data) => { shown += Buffer.from(data).toString(); },
    });
    const type = (text) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(text));
    await type("stty size 2> /dev/null || echo size $LINES $COLUMNS; tty\n");
    await until(() => shown.includes("/dev/pts/"), "its name");
    await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 });
    await type("echo $((40 + 2))$TERM; whoami\n");
    await until(() => shown.includes("42xterm-256color") && shown.includes("user\r\n"), "what was typed");
    await type("exit 7\n");
    equal((await fails(sdk.CommandExitError, pty.wait())).exitCode, 7);
    equal(await sandbox.pty.kill(pty.pid), false);
    await fails(sdk.NotFoundError, sandbox.pty.resize(pty.pid, { cols: 80, rows: 24 }));
    await fails(sdk.NotFoundError, sandbox.pty.sendInput(pty.pid, new TextEncoder().encode("x")));
    const other = await sandbox.pty.create({ cols: 80, rows: 24, user: "root", onData: () => {} });
    assert((await rpc(sandbox, "/process.Process/CloseStdin", { process: { pid: other.pid } })).status >= 400, "not of a terminal");
    assert(await sandbox.pty.kill(other.pid), "it was killed");
  });
});

test("the sandbox is killed under a stream: the client is told so", async () => {
  const sdk = versions["2.51"];
  const sandbox = await sdk.Sandbox.create("base", daemon.options);
  const handle = await sandbox.commands.run("echo begun; sleep 1000", { background: true });
  await until(() => handle.stdout === "begun\n", "its output");
  await daemon.call("SandboxService/DestroySession", { sessionId: sandbox.sandboxId });
  await fails(sdk.TimeoutError, handle.wait());
});

test("a silent stream says that it lives, as often as it is asked to", async () => {
  await withSandbox(versions["2.51"], daemon, {}, async (sandbox) => {
    /** The keys of the messages that come within a time, and how long after the request each of them came. */
    const listen = async (method, message, interval, ms) => {
      const stop = new AbortController();
      const began = Date.now(), seen = [];
      const answer = await inside(daemon, sandbox.sandboxId, 49983, method, {
        method: "POST", body: envelope(message), signal: stop.signal,
        headers: { "content-type": "application/connect+json", "x-access-token": sandbox.envdAccessToken, "keepalive-ping-interval": interval },
      });
      let bytes = Buffer.alloc(0);
      setTimeout(() => stop.abort(), ms);
      try {
        for await (const piece of answer.body) {
          bytes = Buffer.concat([bytes, piece]);
          while (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt32BE(1)) {
            const event = JSON.parse(bytes.subarray(5, 5 + bytes.readUInt32BE(1)));
            bytes = bytes.subarray(5 + bytes.readUInt32BE(1));
            seen.push({ key: Object.keys(event.event ?? event)[0], ms: Date.now() - began });
          }
        }
      } catch { /* stopped */ }
      return seen;
    };
    const start = (script) => ({ process: { cmd: "/bin/sh", args: ["-c", script] }, tag: "silent" });
    const keys = (list) => list.map(({ key }) => key);
    const [silent, busy, zero, rare, bad, connected, watched] = await Promise.all([
      listen("/process.Process/Start", start("sleep 1000"), "1", 2_700),
      listen("/process.Process/Start", start("while sleep 0.3; do echo x; done"), "1", 2_700),
      listen("/process.Process/Start", start("sleep 1000"), "0", 1_700),
      listen("/process.Process/Start", start("sleep 1000"), "60", 1_700),
      listen("/process.Process/Start", start("sleep 1000"), "soon", 1_700),
      sandbox.commands.run("sleep 1000", { background: true }).then((handle) =>
        listen("/process.Process/Connect", { process: { pid: handle.pid } }, "1", 1_700)),
      listen("/filesystem.Filesystem/WatchDir", { path: "/tmp" }, "1", 1_700),
    ]);
    equal(keys(silent), ["start", "keepalive", "keepalive"]);
    assert(silent[1].ms >= 950 && silent[2].ms >= 1_950, silent);
    equal([...new Set(keys(busy))], ["start", "data"], "who speaks needs no sign of life");
    equal(keys(zero), ["start", "keepalive"], "not more often than every second");
    equal([keys(rare), keys(bad)], [["start"], ["start"]]);
    equal([keys(connected), keys(watched)], [["start", "keepalive"], ["start", "keepalive"]]);
  });
});

test("input comes as a stream, too", async () => {
  const sdk = versions["2.51"];
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const send = async (body) => {
      const answer = await inside(daemon, sandbox.sandboxId, 49983, "/process.Process/StreamInput", {
        method: "POST", body, duplex: "half",
        headers: { "content-type": "application/connect+json", "x-access-token": sandbox.envdAccessToken },
      });
      return [answer.status, Buffer.from(await answer.arrayBuffer())];
    };
    const error = async (...messages) => {
      const [status, end] = await send(Buffer.concat(messages));
      equal([status, end[0]], [200, 2]);
      return JSON.parse(end.subarray(5)).error.code;
    };
    const wc = await sandbox.commands.run("wc -c", { background: true, stdin: true });
    const start = envelope({ start: { process: { pid: wc.pid } } });
    const data = envelope({ data: { input: { stdin: Buffer.alloc(90_000, "x").toString("base64") } } });
    // In pieces that have nothing to do with the messages, and more than a pipe holds.
    const all = Buffer.concat([start, envelope({ keepalive: {} }), ...Array(10).fill(data)]);
    async function* pieces() {
      for (let at = 0; at < all.length; at += 7_777) yield all.subarray(at, at + 7_777);
    }
    const [status, answer] = await send(ReadableStream.from(pieces()));
    equal([status, answer.toString("latin1")], [200, "\0\0\0\0\u0002{}\u0002\0\0\0\u0002{}"]);
    await sandbox.commands.closeStdin(wc.pid);
    equal((await wc.wait()).stdout, "900000\n");
    const late = await sandbox.commands.run("sleep 1; wc -c", { background: true, stdin: true });
    const toLate = Buffer.concat([envelope({ start: { process: { pid: late.pid } } }), ...Array(20).fill(data)]);
    equal((await send(toLate))[1].toString("latin1"), "\0\0\0\0\u0002{}\u0002\0\0\0\u0002{}", "one who reads late is waited for");
    await sandbox.commands.closeStdin(late.pid);
    equal((await late.wait()).stdout, "1800000\n");
    const cat = await sandbox.commands.run("cat", { background: true, stdin: true });
    const toCat = envelope({ start: { process: { pid: cat.pid } } });
    equal(await error(data), "invalid_argument");
    equal(await error(toCat, toCat), "invalid_argument");
    equal(await error(toCat, envelope("{")), "invalid_argument");
    equal(await error(toCat, envelope({}, 1)), "invalid_argument");
    equal(await error(toCat, data.subarray(0, 100)), "invalid_argument");
    equal(await error(toCat, Buffer.from([0, 255, 255, 255, 255])), "resource_exhausted");
    equal(await error(envelope({ start: { process: { pid: 99999 } } }), data), "not_found");
    await cat.kill();
  });
});

test("bad requests are refused", async () => {
  const sdk = versions["2.51"];
  await withSandbox(sdk, daemon, {}, async (sandbox) => {
    const code = async (method, message, headers) => {
      const answer = await rpc(sandbox, method, message, headers);
      return [answer.status, answer.json.code];
    };
    equal(await code("/process.Process/List", {}, { "x-access-token": "wrong" }), [401, 401]);
    equal(await code("/process.Process/List", {}, { "x-access-token": "" }), [401, 401]);
    equal(await code("/process.Process/SendSignal", { process: { pid: 1 } }), [400, "invalid_argument"]);
    equal(await code("/process.Process/SendInput", { input: { stdin: "eA==" } }), [400, "invalid_argument"]);
    equal(await code("/process.Process/SendInput", { process: { pid: "x" } }), [400, "invalid_argument"]);
    equal(await code("/process.Process/SendInput", { process: { tag: "" }, input: { stdin: "eA==" } }), [404, "not_found"]);
    equal(await code("/process.Process/Nothing", {}), [404, 404]);
    equal(await code("/process.Process/List", { unknown: 1 }), [200, undefined]);
    for (const body of ["", "{}", "\0\0\0\0\u0002{}", "\0\0\0\0\u0009{}", "\u0001\0\0\0\u0002{}", "\0\xff\xff\xff\xff{}"]) {
      const answer = await inside(daemon, sandbox.sandboxId, 49983, "/process.Process/Start", {
        method: "POST", body: Buffer.from(body, "latin1"),
        headers: { "content-type": "application/connect+json", "x-access-token": sandbox.envdAccessToken },
      });
      const end = Buffer.from(await answer.arrayBuffer());
      equal([answer.status, end[0]], [200, 2], JSON.stringify(body));
      equal(JSON.parse(end.subarray(5)).error.code, "invalid_argument");
    }
  });
});

await run(daemon);
