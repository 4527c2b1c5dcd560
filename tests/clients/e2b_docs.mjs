// SPDX-License-Identifier: Apache-2.0
// The programs of docs/e2b.md, as they stand there, print what stands there.
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { Skip, equal, run, test } from "./harness.mjs";
import { startE2b } from "./e2b_harness.mjs";

const daemon = await startE2b();
const interpreter = await startE2b({ recipe: "code-interpreter" });

const page = readFileSync(new URL("../../docs/e2b.md", import.meta.url), "utf8");

async function works(code, printed) {
  const runsCode = code.includes('"@e2b/code-interpreter"');
  if (runsCode && !interpreter.isDebian) throw new Skip("there is no base with the interpreter");
  const { key, url } = runsCode ? interpreter : daemon;
  // Beside the packages it imports.
  const file = new URL(`./node_modules/.agent-${process.pid}.mjs`, import.meta.url);
  writeFileSync(file, code);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file.pathname], {
      env: { ...process.env, E2B_API_KEY: key, E2B_API_URL: url, E2B_SANDBOX_URL: url },
    });
    equal(stdout, printed);
  } finally {
    rmSync(file);
  }
}

const programs = [...page.matchAll(/^## (.*)$|```js\n([\s\S]*?)```\n\nIt prints\n\n```\n([\s\S]*?)```/gm)];
let title;
for (const [, heading, code, printed] of programs) {
  title = heading ?? title;
  if (code) test(`docs/e2b.md, ${title}: it prints what stands there`, () => works(code, printed));
}
equal(page.match(/```js/g).length, programs.filter(([, , code]) => code).length, "programs that say what they print");

await run(daemon, interpreter);
