// SPDX-License-Identifier: Apache-2.0
// The agent of docs/e2b.md, as it stands there, prints what stands there.
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { equal, run, test } from "./harness.mjs";
import { startE2b } from "./e2b_harness.mjs";

const daemon = await startE2b();

test("the agent in docs/e2b.md works", async () => {
  const page = readFileSync(new URL("../../docs/e2b.md", import.meta.url), "utf8");
  const [, code] = /```js\n([\s\S]*?)```/.exec(page);
  const [, printed] = /It prints\n\n```\n([\s\S]*?)```/.exec(page);
  // Beside the packages it imports.
  const file = new URL(`./node_modules/.agent-${process.pid}.mjs`, import.meta.url);
  writeFileSync(file, code);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file.pathname], {
      env: { ...process.env, E2B_API_KEY: daemon.key, E2B_API_URL: daemon.url, E2B_SANDBOX_URL: daemon.url },
    });
    equal(stdout, printed);
  } finally {
    rmSync(file);
  }
});

await run(daemon);
