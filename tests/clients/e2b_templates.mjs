// SPDX-License-Identifier: Apache-2.0
// Templates of E2B, built and used by its own SDKs; then what no SDK would send.
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { assert, equal, eventually, growthMax, run, test } from "./harness.mjs";
import { api, fails, sdks, startE2b, testEach, withSandbox, connectTo } from "./e2b_harness.mjs";

// `base` is what the daemon's own setting makes of it.
const daemon = await startE2b({ flags: ["--e2b-images", "python=base,ubuntu:22.04=base,library/node:lts=base,gone=nothing"] });
const another = await startE2b(); // which a build does not see the end of
const versions = await sdks();
const other = { ...daemon.options, apiKey: daemon.otherKey };
const context = mkdtempSync(join(tmpdir(), "cay-context-"));
process.once("exit", () => rmSync(context, { recursive: true, force: true }));
mkdirSync(join(context, "app/sub"), { recursive: true });
writeFileSync(join(context, "app/main.sh"), "#!/bin/sh\necho from main\n");
chmodSync(join(context, "app/main.sh"), 0o755);
writeFileSync(join(context, "app/sub/deep.txt"), "deep\n");
writeFileSync(join(context, "app/ignored.log"), "not me\n");
symlinkSync("main.sh", join(context, "app/link"));
writeFileSync(join(context, "one.txt"), "one\n");
writeFileSync(join(context, "two.txt"), "two\n");
writeFileSync(join(context, "large.bin"), Buffer.alloc(5 << 20, 7));
writeFileSync(join(context, ".dockerignore"), "*.log\napp/*.log\n");

const name = (version, word) => `${word}-${version.replace(".", "-")}`;
const builder = (sdk) => sdk.Template({ fileContextPath: context });
/** Bases that the daemon has, without those it began with. */
const bases = async () => ((await daemon.call("BaseService/ListBases", {})).bases ?? []).filter((base) => base.origin === "BASE_ORIGIN_BUILT" && base.name !== daemon.base);
const nothingLeft = () => eventually(async () => (await bases()).length + (await sessions()).length === 0, "nothing is left");
const sessions = async () => (await daemon.call("SandboxService/ListSessions", { labels: { "cay.build": "1" } })).sessions ?? [];
const say = async (sandbox, command, options) => (await sandbox.commands.run(command, options)).stdout.trim();

testEach(versions, "a template has what its steps made, and sandboxes start with it", async (sdk, version) => {
  const id = name(version, "full");
  const logs = [];
  const template = builder(sdk)
    .fromBaseImage()
    .runCmd("echo as $(id -un) in $(pwd) by ${BASH:+bash} > /tmp/first && cat /tmp/first")
    .runCmd(["mkdir -p /srv/app", "chmod 777 /srv/app"], { user: "root" })
    .copy("app", "/srv/app", { forceUpload: true })
    .copy("one.txt", "/srv/renamed.txt", { user: "root", mode: 0o600 })
    .copy(["one.txt", "two.txt"], "/srv/both/")
    .copy("*.txt", "/srv/glob")
    .copyItems([{ src: "large.bin", dest: "/srv/large.bin" }])
    .setEnvs({ GREETING: "hello world", EMPTY: "" })
    .runCmd("echo env $GREETING")
    .setWorkdir("/srv/work")
    .runCmd("pwd > here.txt")
    .copy("two.txt", "near.txt")
    .makeDir("made/deep", { mode: 0o700 })
    .makeSymlink("here.txt", "there.txt")
    .rename("near.txt", "moved.txt")
    .remove("made/deep", { recursive: true, force: true })
    .skipCache()
    .setUser("root")
    .runCmd("id -un > /srv/who.txt")
    .setUser("user")
    .setStartCmd("echo started > /tmp/started; exec sleep 1000", sdk.waitForFile("/tmp/started"));
  const made = await sdk.Template.build(template, id, {
    ...daemon.options, cpuCount: 1, memoryMB: 256, onBuildLogs: (entry) => logs.push(entry),
  });
  equal([made.name, made.templateId, made.tags], [id, id, ["default"]]);
  const said = logs.map((entry) => entry.message);
  assert(said.includes("as user in /home/user by bash"), said);
  assert(said.includes("env hello world"), said);
  assert(said.some((line) => /^Uploaded 'app'/.test(line)), said);
  assert(logs.every((entry) => entry.timestamp instanceof Date && !Number.isNaN(entry.timestamp.getTime())), "times");
  equal(await sdk.Template.exists(id, daemon.options), true);
  await withSandbox(sdk, daemon, { template: id }, async (sandbox) => {
    equal(await say(sandbox, "pwd; id -un; echo $GREETING; echo ${EMPTY-unset}"), "/srv/work\nuser\nhello world");
    equal(await say(sandbox, "pwd", { cwd: "/tmp" }), "/tmp");
    equal((await sandbox.files.list("")).map(({ path }) => path).filter((path) => /here|moved/.test(path)),
      ["/srv/work/here.txt", "/srv/work/moved.txt", "/srv/work/there.txt"], "no path is where commands run");
    equal((await sandbox.files.write("x.txt", "x")).path, `${await say(sandbox, "echo ~")}/x.txt`, "any other begins at home");
    equal(await say(sandbox, "cat /tmp/started"), "started");
    equal(await say(sandbox, "/srv/app/link; cat /srv/app/sub/deep.txt; cd /srv/app; echo *"), "from main\ndeep\nlink main.sh sub");
    equal(await say(sandbox, "find /srv/renamed.txt /srv/app/main.sh -printf '%u %m\\n'"), "root 600\nuser 755");
    equal(await say(sandbox, "cat /srv/both/one.txt /srv/both/two.txt /srv/glob/one.txt; wc -c < /srv/large.bin"), `one\ntwo\none\n${5 << 20}`);
    equal(await say(sandbox, "cat there.txt moved.txt /srv/who.txt; find made -mindepth 1"), "/srv/work\ntwo\nroot");
    const info = await sandbox.getInfo();
    equal([info.templateId, info.name, info.cpuCount, info.memoryMB], [id, id, 1, 256]);
  });
  await withSandbox(sdk, daemon, { template: `alice/${id}:default`, envs: { GREETING: "mine" } }, async (sandbox) => {
    equal(await say(sandbox, "echo $GREETING"), "mine");
  });
  const child = name(version, "child");
  await sdk.Template.build(builder(sdk).fromTemplate(id).runCmd("echo $GREETING in $(pwd) as $(id -un) > child.txt"), child, daemon.options);
  await withSandbox(sdk, daemon, { template: child }, async (sandbox) => {
    equal(await say(sandbox, "cat child.txt; cat /tmp/started"), "hello world in /srv/work as user\nstarted");
  });
  for (const gone of [child, id]) equal((await api(daemon, "DELETE", `/templates/${gone}`)).status, 204);
  equal(await sdk.Template.exists(id, daemon.options), false);
  equal((await api(daemon, "DELETE", `/templates/${id}`)).status, 404);
  await nothingLeft();
});

testEach(versions, "images stand for bases, as the configuration says", async (sdk, version) => {
  const id = name(version, "image");
  const build = (template) => sdk.Template.build(template, id, daemon.options);
  for (const from of [(t) => t.fromPythonImage("3.12"), (t) => t.fromUbuntuImage("22.04"), (t) => t.fromNodeImage(),
    (t) => t.fromImage("docker.io/library/python@sha256:abc"), (t) => t.fromDockerfile("FROM python:3\nWORKDIR /srv\nRUN pwd > /srv/here\nENV A=b")])
    await build(from(builder(sdk)));
  await withSandbox(sdk, daemon, { template: id }, async (sandbox) => equal(await say(sandbox, "cat /srv/here; echo $A"), "/srv\nb"));
  for (const from of [(t) => t.fromUbuntuImage("24.04"), (t) => t.fromAlpineImage(), (t) => t.fromImage("example.com:5000/python")]) {
    const error = await fails(sdk.BuildError, build(from(builder(sdk))));
    assert(/^400: no base stands for the image '.*e2b_images/.test(error.message), error.message);
  }
  const secret = await fails(sdk.BuildError, build(builder(sdk).fromImage("python", { username: "u", password: "hidden" })));
  assert(/^400: credentials/.test(secret.message) && !/hidden/.test(secret.message), secret.message);
  assert(/^404/.test((await fails(sdk.BuildError, build(builder(sdk).fromImage("gone")))).message), "a base that is not there");
  assert(/^404/.test((await fails(sdk.BuildError, build(builder(sdk).fromTemplate("nothing")))).message), "a template that is not there");
  equal((await api(daemon, "DELETE", `/templates/${id}`)).status, 204);
  await nothingLeft();
});

testEach(versions, "a step that fails is named, and what was there before stays", async (sdk, version) => {
  const id = name(version, "failing");
  await sdk.Template.build(builder(sdk).fromBaseImage().runCmd("echo good > state"), id, daemon.options);
  const logs = [];
  const template = builder(sdk).fromBaseImage().runCmd("true").runCmd("echo about to fail; exit 3").runCmd("true");
  const options = { ...daemon.options, onBuildLogs: (entry) => logs.push(entry) };
  const error = await fails(sdk.BuildError, sdk.Template.build(template, id, options));
  assert(/step 2 of 3: the command ended with status 3: about to fail/.test(error.message), error.message);
  assert(logs.some((entry) => entry.message === "about to fail"), logs);
  assert(logs.some((entry) => entry.level === "error"), logs);
  const data = await sdk.Template.buildInBackground(template, id, daemon.options);
  let status;
  await eventually(async () => (status = await sdk.Template.getBuildStatus(data, daemon.options)).status === "error", "it fails");
  equal([status.reason.step, status.reason.logEntries.length], ["2", 1]);
  for (const [bad, wanted] of [[(t) => t.setUser("nobody-knows").runCmd("true"), /step 2/], [(t) => t.setEnvs({ "A=B": "x" }), /step 1/],
    [(t) => t.copy("one.txt", "/../../x"), /step 1/], [(t) => t.runCmd("true", { user: "nobody-knows" }), /step 1/]]) {
    const message = (await fails(sdk.BuildError, sdk.Template.build(bad(builder(sdk).fromBaseImage()), id, daemon.options))).message;
    assert(wanted.test(message), message);
  }
  await fails(Error, sdk.Template.build(builder(sdk).fromBaseImage().copy("missing.txt", "/x"), id, daemon.options));
  await withSandbox(sdk, daemon, { template: id }, async (sandbox) => equal(await say(sandbox, "cat ~/state"), "good"));
  equal((await api(daemon, "DELETE", `/templates/${id}`)).status, 204);
  await nothingLeft();
});

testEach(versions, "building again replaces; tags keep what they name", async (sdk, version) => {
  const id = name(version, "tagged");
  const state = (word) => builder(sdk).fromBaseImage().runCmd(`echo ${word} > state`);
  const shows = (ref, word) => withSandbox(sdk, daemon, { template: ref }, async (sandbox) => equal(await say(sandbox, "cat ~/state"), word, ref));
  const first = await sdk.Template.build(state("one"), `${id}:v1`, { ...daemon.options, tags: ["default", "old"] });
  equal([...first.tags].sort(), ["default", "old", "v1"]);
  const sandbox = await sdk.Sandbox.create(id, daemon.options);
  const second = await sdk.Template.build(state("two"), id, daemon.options);
  assert(first.templateId === second.templateId && first.buildId !== second.buildId, first, second);
  await shows(id, "two");
  await shows(`${id}:v1`, "one");
  await shows(`${id.toUpperCase()}:OLD`, "one");
  await shows(second.templateId, "two");
  equal(await say(sandbox, "cat ~/state"), "one", "a sandbox keeps what it was made from");
  equal(await sandbox.kill(), true);
  const tags = async () => Object.fromEntries((await sdk.Template.getTags(id, daemon.options)).map((item) => [item.tag, item.buildId]));
  equal(await tags().then((all) => Object.keys(all).sort()), ["default", "old", "v1"]);
  equal(await sdk.Template.assignTags(`${id}:default`, ["prod", "v1"], daemon.options), { buildId: second.buildId, tags: ["prod", "v1"] });
  const now = await tags();
  equal([now.v1, now.prod, now.default, now.old], [second.buildId, second.buildId, second.buildId, first.buildId]);
  await sdk.Template.removeTags(id, "old", daemon.options);
  await eventually(async () => (await bases()).length === 1, "what no tag names is gone");
  await fails(sdk.TemplateError, sdk.Template.removeTags(id, ["old"], daemon.options));
  await fails(sdk.TemplateError, sdk.Template.assignTags(`${id}:old`, ["x"], daemon.options));
  await fails(sdk.TemplateError, sdk.Template.assignTags(id, ["not a tag"], daemon.options));
  await fails(Error, sdk.Sandbox.create(`${id}:old`, daemon.options));
  equal(await sdk.Template.exists(`${id}:prod`, daemon.options), true);
  equal(await sdk.Template.exists(`${id}:old`, daemon.options), false);
  // Nobody else knows of any of it, and may have their own of that name.
  equal(await sdk.Template.exists(id, other), false);
  equal(await sdk.Template.exists(`alice/${id}`, other), false);
  for (const ref of [id, `alice/${id}`, `alice/${id}:default`, second.buildId]) await fails(Error, sdk.Sandbox.create(ref, other));
  await fails(sdk.TemplateError, sdk.Template.getTags(id, other));
  await fails(sdk.TemplateError, sdk.Template.assignTags(id, ["x"], other));
  await fails(sdk.BuildError, sdk.Template.getBuildStatus(second, other));
  await fails(sdk.BuildError, sdk.Template.build(state("x"), `alice/${id}`, other));
  assert(/^404/.test((await fails(sdk.BuildError, sdk.Template.build(builder(sdk).fromTemplate(`alice/${id}`), "mine", other))).message), "from another's");
  equal((await api(daemon, "DELETE", `/templates/${id}`, undefined, { "x-api-key": daemon.otherKey })).status, 404);
  await sdk.Template.build(state("his"), id, other);
  await withSandbox(sdk, { options: other }, { template: id }, async (his) => equal(await say(his, "cat ~/state"), "his"));
  await shows(id, "two");
  equal((await api(daemon, "DELETE", `/templates/${id}`, undefined, { "x-api-key": daemon.otherKey })).status, 204);
  await shows(id, "two");
  equal((await api(daemon, "DELETE", `/templates/${id}`)).status, 204);
  await fails(Error, sdk.Sandbox.create(id, daemon.options));
  await nothingLeft();
});

testEach(versions, "a build goes on in the background, and its log comes in parts", async (sdk, version) => {
  const id = name(version, "background");
  const template = builder(sdk).fromBaseImage().copy("one.txt", "one.txt")
    .runCmd("for i in $(seq 1200); do echo line $i; done").setStartCmd("sleep 1000", "test -e one.txt");
  const data = await sdk.Template.buildInBackground(template, id, daemon.options);
  equal([data.templateId, data.alias], [id, id]);
  const lines = [];
  let status;
  do {
    status = await sdk.Template.getBuildStatus(data, { ...daemon.options, logsOffset: lines.length });
    lines.push(...status.logEntries.map((entry) => entry.message));
  } while (status.status === "building" || status.status === "waiting" || status.logEntries.length);
  equal([status.status, status.reason], ["ready", undefined]);
  equal(lines.filter((line) => line.startsWith("line ")), Array.from({ length: 1200 }, (_, i) => `line ${i + 1}`), "the log");
  // Uploaded files are known by what they are, and are not sent again.
  const again = [];
  await sdk.Template.build(template, id, { ...daemon.options, onBuildLogs: (entry) => again.push(entry.message) });
  assert(again.some((line) => /already cached/.test(line)), again);
  await withSandbox(sdk, daemon, { template: id }, async (sandbox) => equal(await say(sandbox, "cat ~/one.txt"), "one"));
  equal((await api(daemon, "DELETE", `/templates/${id}`)).status, 204);
});

testEach(versions, "what an administrator builds is for everybody", async (sdk, version) => {
  const id = name(version, "shared");
  const { secret } = await daemon.call("KeyService/CreateKey", { owner: "chief", role: "KEY_ROLE_ADMIN", e2b: true });
  const chief = { ...daemon.options, apiKey: secret };
  await sdk.Template.build(builder(sdk).fromBaseImage().runCmd("echo shared > state"), `${id}:v1`, { ...chief, tags: ["default"] });
  for (const ref of [id, `${id}:v1`]) {
    equal(await sdk.Template.exists(ref, other), true, ref);
    await withSandbox(sdk, { options: other }, { template: ref }, async (sandbox) => equal(await say(sandbox, "cat ~/state"), "shared"));
  }
  equal((await api(daemon, "DELETE", `/templates/${id}`)).status, 404, "it is not hers");
  await fails(sdk.TemplateError, sdk.Template.assignTags(id, ["mine"], daemon.options));
  await sdk.Template.build(builder(sdk).fromTemplate(id).runCmd("echo and hers >> state"), id, daemon.options);
  await withSandbox(sdk, daemon, { template: id }, async (sandbox) => equal(await say(sandbox, "cat ~/state"), "shared\nand hers"));
  await withSandbox(sdk, { options: other }, { template: id }, async (sandbox) => equal(await say(sandbox, "cat ~/state"), "shared"));
  for (const key of [daemon.key, secret]) equal((await api(daemon, "DELETE", `/templates/${id}`, undefined, { "x-api-key": key })).status, 204);
  await nothingLeft();
});

// --- what no SDK would send ---

const order = async (body = { name: "hostile" }) => (await api(daemon, "POST", "/v3/templates", body)).json;
const start = (made, body) => api(daemon, "POST", `/v2/templates/${made.templateID}/builds/${made.buildID}`, { fromImage: "python", ...body });
const link = async (hash, template = "hostile") => (await api(daemon, "GET", `/templates/${template}/files/${hash}`)).json;
const put = async (url, body, headers = {}) => (await fetch(url, { method: "PUT", body, headers })).status;
const hashOf = (text) => createHash("sha256").update(text).digest("hex");

async function outcome(made) {
  let status;
  await eventually(async () => !["building", "waiting"].includes((status = (await api(daemon, "GET",
    `/templates/${made.templateID}/builds/${made.buildID}/status`)).json).status), "the build ends", 20_000);
  return status;
}

/** A tar with entries of (name, content, {type, link}). */
function tar(...entries) {
  const blocks = [];
  for (const [path, content = "", { type = "0", link: target = "" } = {}] of entries) {
    const head = Buffer.alloc(512);
    head.write(path, 0);
    head.write("0000644\0" + "0000000\0" + "0000000\0", 100);
    head.write(content.length.toString(8).padStart(11, "0") + "\0" + "00000000000\0", 124);
    head.write("        " + type, 148);
    head.write(target, 157);
    head.write("ustar\0" + "00", 257);
    head.write(head.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0") + "\0 ", 148);
    blocks.push(head, Buffer.from(content), Buffer.alloc((512 - (content.length % 512)) % 512));
  }
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

test("orders are checked, and nothing is made by them", async () => {
  for (const body of [{}, { name: "" }, { name: "a b" }, { name: "-a" }, { name: "a/b/c" }, { name: "a:" }, { name: "a:b:c" }, { name: "a".repeat(65) },
    { name: "a", tags: ["b c"] }, { name: "a", tags: Array(33).fill("x") }, { name: "a", cpuCount: 0 }, { name: "a", memoryMB: 1 }, { name: "a", memoryMB: -5 },
    { name: ["a"] }, "not json", { name: "a", cpuCount: 1e300 }])
    equal((await api(daemon, "POST", "/v3/templates", body)).status, 400, JSON.stringify(body));
  equal((await api(daemon, "POST", "/v3/templates", { name: "bob/a" })).status, 404);
  equal((await api(daemon, "POST", "/v3/templates", { name: "a" }, { "x-api-key": "e2b_00" })).status, 401);
  const made = await order({ name: "Mixed-Case:V1", tags: ["v1", "v2"] });
  equal([made.templateID, made.tags, made.names, made.public], ["mixed-case", ["v1", "v2"], ["alice/mixed-case"], false]);
  equal((await api(daemon, "GET", `/templates/mixed-case/builds/${made.buildID}/status`)).json.status, "waiting");
  equal((await api(daemon, "GET", "/templates/aliases/mixed-case")).status, 404);
  for (let i = 0; i < 200; i++) await order({ name: `many-${i}` });
  equal((await api(daemon, "GET", `/templates/mixed-case/builds/${made.buildID}/status`)).status, 404, "the oldest went");
  await nothingLeft();
});

test("builds are started once, by who ordered them, with what makes sense", async () => {
  const made = await order();
  const path = `/v2/templates/hostile/builds/${made.buildID}`;
  for (const body of [{}, { fromImage: "python", fromTemplate: "base" }, "nonsense", { fromImage: "python", steps: [{ type: "ADD", args: ["a"] }] },
    { fromImage: "python", steps: [{ type: "RUN", args: [] }] }, { fromImage: "python", steps: [{ type: "ENV", args: ["A"] }] },
    { fromImage: "python", steps: [{ type: "COPY", args: ["a", "/b", "", ""] }] },
    { fromImage: "python", steps: [{ type: "COPY", args: ["a", "/b"], filesHash: hashOf("never put") }] },
    { fromImage: "python", steps: [{ type: "COPY", args: ["a", "/b"], filesHash: "../../etc/passwd" }] },
    { fromImage: "python", steps: Array(1001).fill({ type: "RUN", args: ["true"] }) }, { fromImage: "=" }, { fromImage: "*" }])
    equal((await api(daemon, "POST", path, body)).status, 400, JSON.stringify(body).slice(0, 200));
  equal((await api(daemon, "POST", path, { fromImage: "python" }, { "x-api-key": daemon.otherKey })).status, 404);
  equal((await api(daemon, "POST", "/v2/templates/hostile/builds/nothing", { fromImage: "python" })).status, 404);
  equal((await api(daemon, "POST", `/v2/templates/another/builds/${made.buildID}`, { fromImage: "python" })).status, 404);
  const answers = await Promise.all([1, 2, 3].map(() => start(made, { steps: [{ type: "RUN", args: ["true"] }] })));
  equal(answers.map((answer) => answer.status).sort(), [202, 409, 409]);
  equal((await outcome(made)).status, "ready");
  equal((await start(made)).status, 409);
  const status = (query, id = made.buildID, template = "hostile") => api(daemon, "GET", `/templates/${template}/builds/${id}/status${query}`);
  for (const junk of ["-1", "x", "1.5", "99999999999999999999999", "%00"]) equal((await status(`?logsOffset=${junk}`)).status, 400, junk);
  equal((await status("?logsOffset=99999999")).json.logEntries, []);
  for (const id of ["nothing", "..%2F..", "%00", "a".repeat(5000)]) equal((await status("", id)).status, 404, id.slice(0, 20));
  equal((await api(daemon, "DELETE", "/templates/hostile")).status, 204);
  equal((await api(daemon, "DELETE", "/templates/base")).status, 404, "a base that was not built here is none of its business");
});

test("files are put by links that cannot be made up", async () => {
  const made = await order();
  const hash = hashOf("files");
  for (const bad of ["x", hash.toUpperCase(), hash.slice(1), `${hash}0`, "..%2F..%2Fetc%2Fpasswd"])
    equal((await api(daemon, "GET", `/templates/hostile/files/${bad}`)).status, 400, bad);
  equal((await api(daemon, "GET", `/templates/hostile/files/${hash}`, undefined, { "x-api-key": daemon.otherKey })).status, 404);
  equal((await api(daemon, "GET", `/templates/never-ordered/files/${hash}`)).status, 404);
  const answer = await api(daemon, "GET", `/templates/hostile/files/${hash}`);
  equal([answer.status, answer.json.present], [201, false]);
  const { url } = answer.json;
  assert(url.startsWith(`${daemon.url}/`), url);
  const changed = (change) => { const copy = new URL(url); change(copy); return String(copy); };
  const archive = gzipSync(tar(["a.txt", "first\n"]));
  for (const [what, bad] of Object.entries({
    signature: changed((u) => u.searchParams.set("signature", "0".repeat(64))),
    none: changed((u) => u.searchParams.delete("signature")),
    later: changed((u) => u.searchParams.set("expires", String(Number(u.searchParams.get("expires")) + 1))),
    past: changed((u) => u.searchParams.set("expires", "1")),
    number: changed((u) => u.searchParams.set("expires", "x")),
    hash: changed((u) => { u.pathname = u.pathname.replace(hash, hashOf("other")); }),
    owner: changed((u) => { u.pathname = u.pathname.replace("/alice/", "/bob/"); }),
    nobody: changed((u) => { u.pathname = u.pathname.replace("/alice/", `/${"a".repeat(300)}/`); }),
  })) equal(await put(bad, archive), 403, what);
  equal((await link(hash)).present, false);
  equal((await api(daemon, "GET", new URL(url).pathname)).status, 405);
  equal(await put(url, new Uint8Array()), 400, "nothing");
  equal(await put(url, archive), 200);
  equal((await link(hash)).present, true);
  equal(await Promise.all([put(url, archive), put(url, archive), put(url, archive)]), [200, 200, 200], "at the same time");
  const steps = [{ type: "COPY", args: ["a.txt", "a.txt"], filesHash: hash }, { type: "RUN", args: ["cat a.txt"] }];
  equal((await api(daemon, "POST", "/v2/templates/hostile/builds/x", { fromImage: "python", steps }, { "x-api-key": daemon.otherKey })).status, 404);
  equal((await start(made, { steps })).status, 202);
  const status = await outcome(made);
  equal(status.status, "ready", JSON.stringify(status.reason));
  assert(status.logEntries.some((entry) => entry.message === "first"), status.logEntries);
  equal((await api(daemon, "DELETE", "/templates/hostile")).status, 204);
});

test("an upload that is too large or ends early is no upload", async () => {
  await order();
  const hash = hashOf("broken");
  const { url } = await link(hash);
  const { hostname, port, pathname, search } = new URL(url);
  const raw = (headers, body) => new Promise((resolve, reject) => {
    let text = "";
    const socket = connectTo(url);
    socket.write(`PUT ${pathname}${search} HTTP/1.1\r\nhost: ${hostname}:${port}\r\n${headers}\r\n\r\n${body}`);
    socket.on("data", (data) => { text += data; if (/^HTTP\/1.1 \d+/.test(text)) socket.destroy(); });
    socket.on("close", () => resolve(Number(text.split(" ")[1])));
    socket.on("error", reject);
    if (headers.includes("1000\r")) setTimeout(() => socket.destroy(), 200);
  });
  equal(await raw("content-length: 3000000000", ""), 413);
  assert(Number.isNaN(await raw("content-length: 1000\r\nx: y", "half of it")), "it was answered");
  equal((await link(hash)).present, false);
});

test("a large upload is on the disk, not in memory", async () => {
  const MIB = 1 << 20;
  const SIZE = 256 * MIB;
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.process.pid}/status`, "utf8"))[1]) * 1024;
  const made = await order();
  const { url } = await link(hashOf("large"));
  const archive = tar(["large", "x"]);
  const before = rss();
  let most = 0;
  function* pieces() {
    yield archive; // what comes after its end is not read
    for (let sent = 0; sent < SIZE; sent += MIB) {
      most = Math.max(most, rss());
      yield Buffer.alloc(MIB);
    }
  }
  equal((await fetch(url, { method: "PUT", body: Readable.toWeb(Readable.from(pieces())), duplex: "half" })).status, 200);
  assert(most - before < growthMax(32), `memory grew by ${(most - before) / MIB} MiB`);
  equal((await start(made, { steps: [{ type: "COPY", args: ["large", "large"], filesHash: hashOf("large") }, { type: "RUN", args: ["cat large"] }] })).status, 202);
  const status = await outcome(made);
  assert(status.status === "ready" && status.logEntries.some((entry) => entry.message === "x"), status);
  equal((await api(daemon, "DELETE", "/templates/hostile")).status, 204);
});

test("archives reach nothing outside of the build", async () => {
  const evil = {
    "no archive": Buffer.from("this is neither tar nor gzip, and quite long, so that it is taken for something".repeat(20)),
    "no gzip": Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(3000, 5)]),
    "half a gzip": gzipSync(tar(["a", "x".repeat(100_000)])).subarray(0, 80),
    "dots": gzipSync(tar(["../../../../tmp/cay-escaped", "x"])),
    "hard link": gzipSync(tar(["a", "", { type: "1", link: "../../etc/passwd" }])),
  };
  for (const [what, archive] of Object.entries(evil)) {
    const made = await order();
    const { url } = await link(hashOf(what));
    equal(await put(url, archive), 200, what);
    equal((await start(made, { steps: [{ type: "COPY", args: [".", "/srv/x"], filesHash: hashOf(what) }] })).status, 202);
    const status = await outcome(made);
    equal([status.status, status.reason?.step], ["error", "1"], what);
  }
  assert(!existsSync("/tmp/cay-escaped"), "it came out");
  // Absolute names and links stay inside.
  const made = await order();
  const { url } = await link(hashOf("inside"));
  equal(await put(url, gzipSync(tar(["/abs", "absolute\n"], ["out", "", { type: "2", link: "/" }], ["out/srv/through", "through\n"]))), 200);
  equal((await start(made, { steps: [{ type: "COPY", args: [".", "/srv/x"], filesHash: hashOf("inside") },
    { type: "RUN", args: ["cat /srv/x/abs; find / -xdev -name through 2>/dev/null; true"] }] })).status, 202);
  const status = await outcome(made);
  const said = status.logEntries.map((entry) => entry.message);
  assert(status.status === "ready" && said.includes("absolute") && said.includes("/srv/through"), status);
  assert(!existsSync("/abs") && !existsSync("/srv/through"), "it came out");
  await api(daemon, "DELETE", "/templates/hostile");
  await nothingLeft();
});

test("the end of the daemon is the end of its builds", async () => {
  const made = (await api(another, "POST", "/v3/templates", { name: "late" })).json;
  const steps = [{ type: "RUN", args: ["echo running; sleep 1000"] }];
  equal((await api(another, "POST", `/v2/templates/late/builds/${made.buildID}`, { fromImage: "e2bdev/base", steps })).status, 202);
  const path = `/templates/late/builds/${made.buildID}/status`;
  await eventually(async () => /"running"/.test((await api(another, "GET", path)).text), "it runs");
  another.process.kill("SIGTERM");
  const [code, signal] = await another.ended;
  equal([code, signal], [0, null]);
});

await run(daemon, another);
