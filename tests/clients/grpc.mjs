// SPDX-License-Identifier: Apache-2.0
// The gRPC client for Node.
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  assert, equal, eventually, run, startCayd, startEchod, test, throws,
} from "./harness.mjs";

const MIB = 1024 * 1024;
const { status } = grpc;
const root = fileURLToPath(new URL("../..", import.meta.url));
const load = (folder, ...files) => grpc.loadPackageDefinition(protoLoader.loadSync(files, {
  longs: Number, enums: String, defaults: true, oneofs: true, includeDirs: [join(root, folder)],
}));
const Echo = load("tests/proto", "echo.proto").cay.test.v1.EchoService;
const contract = load("proto", "cay/v1/sandbox_service.proto", "cay/v1/key.proto").cay.v1;

const echod = await startEchod();
const guarded = await startEchod("--key", "s3cret");
const clients = [];

function client(Service, url, extra = {}) {
  const made = new Service(url.replace("http://", ""), grpc.credentials.createInsecure(), {
    "grpc.max_receive_message_length": 64 * MIB, "grpc.max_send_message_length": 64 * MIB, ...extra,
  });
  clients.push(made);
  return made;
}
const echo = client(Echo, echod.url);

/** A unary or client-streaming call as a promise. */
function call(on, method, request, { metadata = new grpc.Metadata(), ...extra } = {}) {
  return new Promise((resolve, reject) => {
    on[method](request, metadata, extra, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

function collect(stream) {
  return new Promise((resolve, reject) => {
    const all = [];
    stream.on("data", (message) => all.push(message));
    stream.on("error", (error) => reject(Object.assign(error, { got: all })));
    stream.on("end", () => resolve(all));
  });
}

const stats = () => call(echo, "stats", {});
const codeIs = (code) => (error) => equal(error.code, code, error.message);

/** cay.v1.ErrorInfo.reason inside google.rpc.Status: a string in an Any in a repeated field. */
function reasonOf(error) {
  const [details] = error.metadata.get("grpc-status-details-bin");
  const at = details.indexOf("type.googleapis.com/cay.v1.ErrorInfo");
  assert(at > 0, "the detail is there");
  const value = details.subarray(at + "type.googleapis.com/cay.v1.ErrorInfo".length);
  // value: 12 len { 0a len reason }
  equal([value[0], value[2]], [0x12, 0x0a], "the detail");
  return value.subarray(4, 4 + value[3]).toString();
}

test("unary", async () => {
  const payload = Buffer.alloc(300_000, "abc");
  const answer = await call(echo, "unary", {
    payload, text: "grüß 😀", number: -5, labels: { a: "b" }, values: [0.5, NaN], flag: false,
    when: { seconds: 1709208000, nanos: 5000 },
  });
  assert(answer.payload.equals(payload), "the payload");
  equal([answer.text, answer.number, answer.labels, answer.method, answer.when.nanos],
    ["grüß 😀", -5, { a: "b" }, "Unary", 5000]);
  equal((await call(echo, "unary", {})).payload.length, 0);
});

test("server stream", async () => {
  const got = await collect(echo.serverStream({ count: 500, sizeBytes: 10_000 }));
  equal(got.map((m) => m.index), Array.from({ length: 500 }, (_, n) => n));
  equal((await collect(echo.serverStream({}))).length, 0);
});

test("client stream", async () => {
  const answer = await new Promise((resolve, reject) => {
    const stream = echo.clientStream((error, value) => (error ? reject(error) : resolve(value)));
    for (let n = 0; n < 300; n++) stream.write({ payload: Buffer.alloc(n) });
    stream.end();
  });
  equal([answer.messages, answer.bytes], [300, 44850]);
});

test("bidirectional stream, turn by turn", async () => {
  const stream = echo.bidi();
  let seen = 0;
  stream.on("data", (message) => {
    equal(message.payload.length, ++seen);
    if (seen < 100) stream.write({ payload: Buffer.alloc(seen + 1) });
    else stream.end();
  });
  const ended = collect(stream);
  stream.write({ payload: Buffer.alloc(1) });
  await ended;
  equal(seen, 100);
});

test("errors carry code, sentence and reason", async () => {
  const text = 'the session \'ü\' is "gone", 100%';
  for (const [reason, code] of [
    ["session_not_found", status.NOT_FOUND], ["no_space", status.RESOURCE_EXHAUSTED],
    ["session_paused", status.FAILED_PRECONDITION], ["internal", status.INTERNAL],
    ["unavailable", status.UNAVAILABLE], ["permission_denied", status.PERMISSION_DENIED],
  ]) {
    await throws(call(echo, "fail", { reason, text }), (error) => {
      equal([error.code, error.details, reasonOf(error)], [code, text, reason]);
    });
  }
  await throws(call(echo, "unimplemented", {}), codeIs(status.UNIMPLEMENTED));
  await throws(collect(echo.serverStream({ count: 3, failReason: "no_space" })), (error) => {
    equal([error.code, error.got.length, reasonOf(error)], [status.RESOURCE_EXHAUSTED, 3, "no_space"]);
  });
  const stream = echo.bidi();
  stream.write({ failReason: "no_space" });
  for (let n = 0; n < 200; n++) stream.write({ payload: Buffer.alloc(10_000) });
  await throws(collect(stream), codeIs(status.RESOURCE_EXHAUSTED));
});

test("an unknown method is unimplemented", async () => {
  const bytes = (value) => value;
  await throws(new Promise((resolve, reject) => {
    echo.makeUnaryRequest("/cay.test.v1.EchoService/Nope", bytes, bytes, Buffer.alloc(0),
      (error, value) => (error ? reject(error) : resolve(value)));
  }), codeIs(status.UNIMPLEMENTED));
});

test("deadlines reach the server and end the call", async () => {
  const answer = await call(echo, "unary", {}, { deadline: Date.now() + 60_000 });
  assert(answer.deadlineMs > 50_000 && answer.deadlineMs <= 60_000, answer.deadlineMs);
  const before = await stats();
  await throws(call(echo, "slow", { delayMs: 600_000 }, { deadline: Date.now() + 50 }),
    codeIs(status.DEADLINE_EXCEEDED));
  await throws(collect(echo.serverStream({ count: 1000, delayMs: 10 }, new grpc.Metadata(),
    { deadline: Date.now() + 100 })), codeIs(status.DEADLINE_EXCEEDED));
  await eventually(async () => (await stats()).liveCalls === before.liveCalls, "both calls end");
});

test("cancellation reaches the server", async () => {
  const before = await stats();
  for (const start of [
    () => {
      let done;
      const ended = new Promise((resolve) => (done = resolve));
      const handle = echo.slow({ delayMs: 600_000 }, (error) => done(error));
      return { handle, ended: ended.then((error) => Promise.reject(error)) };
    },
    () => {
      const handle = echo.serverStream({ count: 1_000_000, sizeBytes: 1000 });
      return { handle, ended: collect(handle) };
    },
    () => {
      const handle = echo.bidi();
      handle.write({ payload: Buffer.alloc(10) });
      return { handle, ended: collect(handle) };
    },
  ]) {
    const { handle, ended } = start();
    const seen = throws(ended, codeIs(status.CANCELLED));
    await eventually(async () => (await stats()).liveCalls === before.liveCalls + 1, "the call runs");
    handle.cancel();
    await seen;
    await eventually(async () => (await stats()).liveCalls === before.liveCalls, "the call ends");
  }
  // Node ends its side of a stream before it resets it: the last one may have ended in peace.
  const cancelled = (await stats()).cancelledCalls - before.cancelledCalls;
  assert(cancelled === 2 || cancelled === 3, cancelled);
});

test("gzip both ways", async () => {
  const zipped = client(Echo, echod.url, { "grpc.default_compression_algorithm": 2 });
  const text = "squeeze ".repeat(10_000);
  equal((await call(zipped, "unary", { text })).text, text);
  const got = await collect(zipped.serverStream({ count: 10, sizeBytes: 50_000 }));
  assert(got.length === 10 && got.every((m) => m.payload.length === 50_000));
});

test("a message of 16 MiB passes, a larger one is refused", async () => {
  const sum = (size) => new Promise((resolve, reject) => {
    const stream = client(Echo, echod.url).clientStream((error, value) => (error ? reject(error) : resolve(value)));
    stream.write({ payload: Buffer.alloc(size) });
    stream.end();
  });
  const fits = 16 * MIB - 5;
  equal((await sum(fits)).bytes, fits);
  await throws(call(client(Echo, echod.url), "unary", { payload: Buffer.alloc(16 * MIB + 1) }),
    codeIs(status.RESOURCE_EXHAUSTED));
  await throws(collect(echo.serverStream({ count: 1, sizeBytes: 16 * MIB })), codeIs(status.RESOURCE_EXHAUSTED));
  const got = await collect(echo.serverStream({ count: 2, sizeBytes: 16 * MIB - 16 }));
  equal(got.map((m) => m.payload.length), [16 * MIB - 16, 16 * MIB - 16]);
});

test("keys in metadata", async () => {
  const shut = client(Echo, guarded.url);
  await throws(call(shut, "unary", {}), (error) => {
    equal([error.code, reasonOf(error)], [status.UNAUTHENTICATED, "unauthenticated"]);
  });
  await throws(collect(shut.serverStream({})), codeIs(status.UNAUTHENTICATED));
  const metadata = new grpc.Metadata();
  metadata.set("authorization", "Bearer s3cret");
  metadata.set("x-data-bin", Buffer.from([0, 1, 255]));
  equal((await call(shut, "unary", {}, { metadata })).owner, "tester");
});

test("a thousand calls on one connection", async () => {
  const answers = await Promise.all(
    Array.from({ length: 1000 }, (_, number) => call(echo, "unary", { number })));
  equal(answers.map((a) => a.number), Array.from({ length: 1000 }, (_, n) => n));
});

test("nothing is left on the server", async () => {
  await eventually(async () => {
    const now = await stats();
    return now.liveCalls === 0 && now.openExchanges === 1;
  }, "no call and no exchange");
});

test("cayd: health, keys and errors", async () => {
  const cayd = await startCayd();
  const sandbox = client(contract.SandboxService, cayd.url);
  const keys = client(contract.KeyService, cayd.url);
  try {
    const metadata = new grpc.Metadata();
    metadata.set("authorization", `Bearer ${cayd.key}`);
    const health = await call(sandbox, "healthCheck", {}, { metadata });
    assert(/^HEALTH_STATUS_(HEALTHY|DEGRADED|UNHEALTHY)$/.test(health.status), health);
    const made = await call(keys, "createKey", { owner: "somebody" }, { metadata });
    const list = await call(keys, "listKeys", { owner: "somebody" }, { metadata });
    equal(list.keys.map((key) => key.id), [made.key.id]);
    await throws(call(keys, "revokeKey", { keyId: "nothing" }, { metadata }), (error) => {
      equal([error.code, reasonOf(error)], [status.NOT_FOUND, "key_not_found"]);
    });
    await throws(call(sandbox, "healthCheck", {}), codeIs(status.UNAUTHENTICATED));
    const events = sandbox.watchEvents({}, new grpc.Metadata());
    await throws(collect(events), codeIs(status.UNAUTHENTICATED));
  } finally {
    for (const one of [sandbox, keys]) one.close();
    equal(await cayd.stop(), 0, "the status of cayd");
  }
});

const connections = { stop: async () => { for (const one of clients) one.close(); return 0; } };
await run(connections, echod, guarded);
