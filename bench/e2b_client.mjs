// SPDX-License-Identifier: Apache-2.0
// E2B's own SDK with a stopwatch. Reads lines "WHAT COUNT", answers each with milliseconds: the median
// of COUNT, or of all at once.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Sandbox } = createRequire(new URL("../tests/clients/package.json", import.meta.url))("e2b");
const MIB = new Uint8Array(1 << 20).fill(120);

async function timed(work) {
  const since = performance.now();
  const value = await work();
  return [performance.now() - since, value];
}

/** Milliseconds, in the middle of `count` calls of `once`, which takes its own time. */
async function median(count, once) {
  const took = [];
  for (let i = 0; i < count; i++) took.push(await once());
  return took.sort((a, b) => a - b)[count >> 1];
}

const kept = await Sandbox.create({ timeoutMs: 3_600_000 });

async function hi(sandbox) {
  const { stdout } = await sandbox.commands.run("echo hi");
  if (stdout !== "hi\n") throw new Error(stdout);
  return sandbox;
}

const SAMPLES = {
  /** From nothing to what the first command said. */
  create: (count) => median(count, async () => {
    const [took, sandbox] = await timed(async () => hi(await Sandbox.create()));
    await sandbox.kill();
    return took;
  }),
  run: (count) => median(count, async () => (await timed(() => hi(kept)))[0]),
  file: (count) => median(count, async () => (await timed(async () => {
    await kept.files.write("large", MIB.buffer);
    const { byteLength } = await kept.files.read("large", { format: "bytes" });
    if (byteLength !== MIB.byteLength) throw new Error(`${byteLength} bytes`);
  }))[0]),
  storm: async (count) => {
    const [took, made] = await timed(() => Promise.all(Array.from({ length: count }, () => Sandbox.create())));
    await Promise.all(made.map((sandbox) => sandbox.kill()));
    return took;
  },
};

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [what, count] = line.split(" ");
  console.log(await SAMPLES[what](Number(count)));
}
await kept.kill();
