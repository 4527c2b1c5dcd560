// SPDX-License-Identifier: Apache-2.0
// Code by E2B's own code interpreter SDK, in sandboxes of the recipe `code-interpreter`.
import { Sandbox, NotFoundError, SandboxError, TimeoutError } from "@e2b/code-interpreter";
import { Skip, assert, equal, run, test } from "./harness.mjs";
import { fails, startE2b } from "./e2b_harness.mjs";

const daemon = await startE2b({ recipe: "code-interpreter" });

/** Registers a case with a sandbox of the SDK's own template. */
function testCode(name, body, options = {}) {
  test(name, async () => {
    if (!daemon.isDebian) throw new Skip("needs the recipe code-interpreter");
    const sandbox = await Sandbox.create({ ...daemon.options, timeoutMs: 120_000, ...options });
    try {
      await body(sandbox);
    } finally {
      await sandbox.kill().catch(() => {});
    }
  });
}

const textOf = async (sandbox, code, options) => (await sandbox.runCode(code, options)).text;

testCode("the service answers as soon as there is a sandbox, and remembers", async (sandbox) => {
  const first = await sandbox.runCode("x = 41");
  equal([first.text, first.results, first.error, first.executionCount], [undefined, [], undefined, 1]);
  const second = await sandbox.runCode("x += 1\nx");
  equal([second.text, second.executionCount], ["42", 2]);
  equal((await sandbox.getInfo()).name ?? "code-interpreter-v1", "code-interpreter-v1");
  equal(await textOf(sandbox, "import os; os.getcwd(), os.getuid(), os.environ['HOME']"), "('/home/user', 1000, '/home/user')");
  equal((await sandbox.commands.run("id -un")).stdout, "user\n");
});

testCode("output streams while the code runs, in order, and before the result", async (sandbox) => {
  const seen = [];
  let first;
  const begun = new Promise((resolve) => { first = resolve; });
  // The code goes on only when its first line was seen outside.
  const running = sandbox.runCode(`import sys, pathlib, time
print("one")
while not pathlib.Path("/tmp/go").exists(): time.sleep(0.01)
sys.stderr.write("bad\\n")
print("tüo", flush=True)
"end"`, {
    onStdout: ({ line, error }) => { seen.push(["out", line, error]); first(); },
    onStderr: ({ line, error }) => { seen.push(["err", line, error]); },
    onResult: (result) => { seen.push(["result", result.text]); },
  });
  running.catch(() => {}); // it may fail before anybody looks
  await begun;
  equal(seen, [["out", "one\n", false]]);
  await sandbox.files.write("/tmp/go", "");
  const execution = await running;
  equal(execution.logs.stdout.join(""), "one\ntüo\n");
  equal(execution.logs.stderr.join(""), "bad\n");
  equal(seen.at(-1), ["result", "'end'"]);
  equal(seen.filter(([kind]) => kind === "err"), [["err", "bad\n", true]]);
  const much = await sandbox.runCode("for i in range(20000): print(i, 'ä€' * 10)");
  equal(much.logs.stdout.join(""), Array.from({ length: 20_000 }, (_, i) => `${i} ${"ä€".repeat(10)}\n`).join(""));
});

testCode("tables come as html, figures as png, dictionaries as json, and several at once", async (sandbox) => {
  const table = await sandbox.runCode("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})");
  assert(/<table[\s\S]*<th>a<\/th>[\s\S]*<td>y<\/td>/.test(table.results[0].html), table);
  assert(table.text.includes("a  b"), table.text);
  assert(table.results[0].formats().includes("html"), table.results[0].formats());
  const plot = await sandbox.runCode("import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.title('t')\nplt.show()");
  const [figure] = plot.results.filter(({ png }) => png);
  const png = Buffer.from(figure.png, "base64");
  equal(png.subarray(0, 8).toString("latin1"), "\x89PNG\r\n\x1a\n");
  assert(png.readUInt32BE(16) > 100, "it has a width");
  equal((await sandbox.runCode("1")).results.length, 1, "a figure is shown once");
  const two = await sandbox.runCode("plt.figure(); plt.plot([1])\nplt.figure(); plt.plot([2]);");
  equal(two.results.filter(({ png: each }) => each).length, 2);
  const [json] = (await sandbox.runCode("{'a': [1, None, 'ü'], 'b': {'c': True}}")).results;
  equal(json.json, { a: [1, null, "ü"], b: { c: true } });
  const several = await sandbox.runCode("display(pd.DataFrame({'z': [0]}))\ndisplay('shown')\n'main'");
  equal(several.results.map(({ isMainResult, text }) => [isMainResult, text.includes("z") ? "table" : text]),
    [[false, "table"], [false, "'shown'"], [true, "'main'"]]);
  equal(await textOf(sandbox, "import numpy as np; np.arange(6).reshape(2, 3).sum(axis=0)"), "array([3, 5, 7])");
});

testCode("errors have a name, a value and a traceback", async (sandbox) => {
  const told = [];
  const execution = await sandbox.runCode("print('before')\ndef f(n):\n    return 1 / n\nf(0)", { onError: (error) => { told.push(error.name); } });
  equal([execution.error.name, execution.error.value], ["ZeroDivisionError", "division by zero"]);
  assert(/line 4[\s\S]*f\(0\)[\s\S]*return 1 \/ n/.test(execution.error.traceback), execution.error.traceback);
  equal([execution.logs.stdout.join(""), told], ["before\n", ["ZeroDivisionError"]]);
  equal((await sandbox.runCode("x ==")).error.name, "SyntaxError");
  equal((await sandbox.runCode("import not_there")).error.name, "ModuleNotFoundError");
  equal((await sandbox.runCode("import sys; sys.exit(3)")).error.name, "SystemExit");
  equal((await sandbox.runCode("import os; os.kill(os.getpid(), 9)")).error.name, "ContextEnded");
  equal(await textOf(sandbox, "6 * 7"), "42", "it goes on after all of them");
  await fails(SandboxError, sandbox.runCode("1", { language: "r" }));
});

testCode("contexts are apart, have their directory, are listed, restarted and removed", async (sandbox) => {
  const [standard] = await sandbox.listCodeContexts();
  const context = await sandbox.createCodeContext({ cwd: "/tmp", language: "python" });
  equal([context.cwd, context.language], ["/tmp", "python"]);
  equal((await sandbox.listCodeContexts()).map(({ id }) => id).sort(), [standard.id, context.id].sort());
  await sandbox.runCode("y = 1");
  equal((await sandbox.runCode("y", { context })).error.name, "NameError");
  equal(await textOf(sandbox, "import os; os.getcwd()", { context }), "'/tmp'");
  equal(await textOf(sandbox, "y", { context: standard }), "1");
  await sandbox.runCode("z = 1", { context });
  await sandbox.restartCodeContext(context);
  const fresh = await sandbox.runCode("z", { context });
  equal([fresh.error.name, fresh.executionCount], ["NameError", 1]);
  await sandbox.removeCodeContext(context);
  await fails(NotFoundError, sandbox.runCode("1", { context }));
  await fails(NotFoundError, sandbox.restartCodeContext(context.id));
  await fails(SandboxError, sandbox.createCodeContext({ cwd: "/not/there" }));
  await fails(SandboxError, sandbox.createCodeContext({ language: "r" }));
  // Two at once: they run side by side.
  const [one, two] = await Promise.all([sandbox.createCodeContext(), sandbox.createCodeContext()]);
  const wait = (mine, other) => `import pathlib, time\npathlib.Path("/tmp/${mine}").touch()
while not pathlib.Path("/tmp/${other}").exists(): time.sleep(0.01)\n"met"`;
  const met = await Promise.all([sandbox.runCode(wait("a", "b"), { context: one }), sandbox.runCode(wait("b", "a"), { context: two })]);
  equal(met.map(({ text }) => text), ["'met'", "'met'"]);
});

testCode("variables of the environment: of the sandbox, and of one execution", async (sandbox) => {
  const code = "import os; [os.environ.get(name) for name in ('OF_SANDBOX', 'OF_CALL')]";
  equal(await textOf(sandbox, code, { envs: { OF_CALL: "c" } }), "['s', 'c']");
  equal(await textOf(sandbox, code), "['s', None]");
  equal(await textOf(sandbox, code, { envs: { OF_SANDBOX: "other" } }), "['other', None]");
}, { envs: { OF_SANDBOX: "s" } });

testCode("a time limit interrupts the code; the context lives on", async (sandbox) => {
  await sandbox.runCode("kept = 1");
  await fails(TimeoutError, sandbox.runCode("while True: pass", { timeoutMs: 500 }));
  equal(await textOf(sandbox, "kept"), "1");
});

testCode("files, packages and commands are those of the sandbox", async (sandbox) => {
  await sandbox.files.write("data.csv", "n\n1\n2\n39\n");
  equal(await textOf(sandbox, "import pandas as pd; int(pd.read_csv('data.csv').n.sum())"), "42");
  await sandbox.runCode("import subprocess; subprocess.run('sudo touch /etc/from-code', shell=True, check=True)");
  equal(await sandbox.files.exists("/etc/from-code"), true);
  await sandbox.files.write("mine.py", "def f(): return 'mine'");
  equal(await textOf(sandbox, "import mine; mine.f()"), "'mine'");
});

testCode("a pause keeps what the code has made; a kill ends what runs", async (sandbox) => {
  await sandbox.runCode("state = {'n': 1}");
  equal(await sandbox.pause(), true);
  await fails(TimeoutError, sandbox.runCode("state"));
  const again = await Sandbox.connect(sandbox.sandboxId, daemon.options);
  equal(await textOf(again, "state['n'] += 1; state"), "{'n': 2}");
  equal(await again.pause({ keepMemory: false }), true);
  await again.connect();
  equal((await again.runCode("state")).error.name, "NameError", "without memory, the service is a new one");
  let seen;
  const begun = new Promise((resolve) => { seen = resolve; });
  const running = again.runCode("print('on')\nwhile True: pass", { onStdout: () => seen(), timeoutMs: 0 });
  running.catch(() => {}); // it may fail before anybody looks
  await begun;
  equal(await again.kill(), true);
  await fails(Error, running);
  await fails(TimeoutError, again.runCode("1"));
});

testCode("forks and sandboxes made from a snapshot have the files, and a service of their own that is ready", async (sandbox) => {
  await sandbox.runCode("open('kept.txt', 'w').write('here'); secret = 1");
  const { snapshotId } = await sandbox.createSnapshot();
  const others = [...await sandbox.fork({ count: 2 }), await Sandbox.create(snapshotId, { ...daemon.options, timeoutMs: 60_000 })];
  for (const other of others) {
    equal(await textOf(other, "open('kept.txt').read()"), "'here'");
    equal((await other.runCode("secret")).error.name, "NameError");
    equal(await other.kill(), true);
  }
  equal(await textOf(sandbox, "secret"), "1");
  equal(await Sandbox.deleteSnapshot(snapshotId, daemon.options), true);
});

testCode("the port is private where the sandbox is", async (sandbox) => {
  assert(sandbox.trafficAccessToken, "there is a token");
  equal(await textOf(sandbox, "1 + 1"), "2");
  const answer = await fetch(`${daemon.url}/contexts`, { headers: { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49999" } });
  equal(answer.status, 403);
}, { network: { allowPublicTraffic: false } });

test("20 sandboxes at once run code", async () => {
  if (!daemon.isDebian) throw new Skip("needs the recipe code-interpreter");
  const made = await Promise.all(Array.from({ length: 20 }, () => Sandbox.create({ ...daemon.options, timeoutMs: 120_000 })));
  try {
    const texts = await Promise.all(made.map((sandbox, i) => textOf(sandbox, `${i} * 2`)));
    equal(texts, made.map((_, i) => String(i * 2)));
  } finally {
    await Promise.all(made.map((sandbox) => sandbox.kill()));
  }
  equal(await Sandbox.list(daemon.options).nextItems(), []);
});

await run(daemon);
