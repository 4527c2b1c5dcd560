// SPDX-License-Identifier: Apache-2.0
// What agents take for granted in a sandbox: a Debian with its shell, sudo, Python and git.
import { Skip, assert, equal, eventually, run } from "./harness.mjs";
import { sdks, startE2b, testEach, withSandbox } from "./e2b_harness.mjs";

const daemon = await startE2b();
const versions = await sdks();
const HOME = ["", "home", "user"].join("/");

/** Registers a case that needs the real thing. */
function testDebian(name, body) {
  testEach(versions, name, (sdk) => {
    if (!daemon.isDebian) throw new Skip("needs the recipe debian");
    return withSandbox(sdk, daemon, {}, (sandbox) =>
      body(sandbox, async (command, options) => (await sandbox.commands.run(command, options)).stdout, sdk));
  });
}

testDebian("the shell is a login shell of Debian, for both users", async (_sandbox, output) => {
  const system = await output(". /etc/os-release; echo $ID $VERSION_CODENAME; cat /etc/hostname");
  assert(/^debian [a-z]+\ncay\n$/.test(system), system);
  equal(await output("shopt -q login_shell && echo $0 $PATH; command -v ls python git"),
    "/bin/bash /usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\n/usr/bin/ls\n/usr/bin/python\n/usr/bin/git\n");
  equal(await output("echo $PATH; echo ~; umask", { user: "root" }),
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n/root\n0022\n");
  equal(await output("id"), "uid=1000(user) gid=1000(user) groups=1000(user)\n");
  equal(await output("getent passwd user"), "user:x:1000:1000:user:/home/user:/bin/bash\n");
  equal(await output("echo 'export GREETING=hello' >> ~/.profile; mkdir -p ~/.local/bin; stat -c %U ~ ~/.bashrc ~/.profile"), "user\nuser\nuser\n");
  equal(await output("echo $GREETING ${PATH%%:*}"), `hello ${HOME}/.local/bin\n`, "the next command has read it");
  equal(await output("ls -A /tmp /run/sudo /var/lib/apt/lists /var/cache/apt/archives 2> /dev/null | grep -v ':$' | sort -u"), "\n");
});

testDebian("sudo asks for no password and gives root", async (sandbox, output) => {
  const { stdout, stderr } = await sandbox.commands.run("sudo id -u; getent hosts $(hostname) | cut -d' ' -f1");
  equal([stdout, stderr], ["0\n::1\n", ""], "it knows the host and says nothing else");
  equal(await output("sudo -n -u user id -un"), "user\n");
  equal(await output("echo root-made | sudo tee /etc/made > /dev/null; stat -c '%U %a' /etc/made; cat /etc/made"),
    "root 644\nroot-made\n");
  equal(await output("sudo sh -c 'useradd -m other && su - other -c whoami'"), "other\n");
  equal(await output("sudo dpkg --audit; dpkg -s sudo | grep ^Status"), "Status: install ok installed\n");
  equal(await output("sudo apt-get check -qq && apt-mark showmanual | grep -cx git"), "1\n");
});

testDebian("Python runs, with its own library, subprocesses and a virtual environment", async (sandbox, output) => {
  equal(await output("python -c 'import sys; print(sys.version_info.major, sys.prefix)'"), "3 /usr\n");
  await sandbox.files.write("work/sum.py", `
import concurrent.futures, hashlib, json, sqlite3, ssl, subprocess, threading, urllib.request
base = sqlite3.connect(":memory:")
base.execute("create table t (n)")
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    base.executemany("insert into t values (?)", [(n,) for n in pool.map(lambda n: n * n, range(10))])
total, = base.execute("select sum(n) from t").fetchone()
said = subprocess.run(["sh", "-c", "echo ünï"], capture_output=True, text=True).stdout
print(json.dumps({"total": total, "said": said}, ensure_ascii=False))`);
  equal(JSON.parse(await output("python3 sum.py", { cwd: `${HOME}/work`, envs: { LANG: "C.UTF-8" } })), { total: 285, said: "ünï\n" });
  equal(await output("python3 -m venv --without-pip venv && . venv/bin/activate && python -c 'import sys; print(sys.prefix)'"),
    `${HOME}/venv\n`);
  equal(await output("python3 -c \"import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))\""), "[1, 2]\n");
});

testDebian("git clones, commits, branches and pushes", async (sandbox, output) => {
  await sandbox.commands.run(`git config --global user.name Agent; git config --global user.email agent@example.com
git config --global init.defaultBranch main; git init -q --bare /tmp/origin.git; git clone -q /tmp/origin.git work 2> /dev/null`);
  await sandbox.files.write("work/a.txt", "one\n");
  await sandbox.commands.run("git add . && git commit -qm 'first' && git push -q origin HEAD", { cwd: `${HOME}/work` });
  equal(await output("git clone -q /tmp/origin.git again && cat again/a.txt && git -C again log --format='%an %s'"), "one\nAgent first\n");
  equal(await output("git -C again switch -qc topic && echo two >> again/a.txt && git -C again diff --stat | tail -n 1"),
    " 1 file changed, 1 insertion(+)\n");
});

testDebian("a terminal is a real one: prompt, job control, line editing, programs of the whole screen", async (sandbox) => {
  let shown = "";
  const pty = await sandbox.pty.create({ cols: 97, rows: 31, timeoutMs: 0, onData: (data) => { shown += Buffer.from(data).toString(); } });
  const type = (text) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(text));
  const saw = (what) => eventually(() => (what instanceof RegExp ? what.test(shown) : shown.includes(what)), String(what))
    .catch((error) => { throw new Error(`${error.message}\n${shown}`); });
  await eventually(() => shown.replace(/\x1b\[[0-9;]*m/g, "").includes(`user@${sandbox.sandboxId}:~$ `), "a prompt");
  await type("stty size; tput cols; locale charmap\r");
  await saw("31 97\r\n97\r\nUTF-8\r\n");
  await sandbox.pty.resize(pty.pid, { cols: 60, rows: 20 });
  await type("stty size\r");
  await saw("20 60\r\n");
  await type("sleep 1000\r");
  await eventually(async () => (await sandbox.commands.run("pgrep -x sleep || true")).stdout !== "", "sleep runs");
  await type("\x1a"); // Ctrl-Z
  await saw(/\[1\]\+ +Stopped +sleep 1000/);
  await type("kill %1; wait; ech\x01\x05o 'hä'$((6*7)\x08\x7f7))\r"); // Ctrl-A, Ctrl-E, backspace
  await saw("hä42\r\n");
  await type("python3 -q\r");
  await saw(">>> ");
  await type("import sys; sys.stdin.isatty(), 40 + 2\r");
  await saw("(True, 42)");
  await type("\x04");
  await type("exit 5\r");
  const ended = await pty.wait().catch((error) => error);
  equal(ended.exitCode, 5);
});

await run(daemon);
