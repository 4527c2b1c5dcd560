// SPDX-License-Identifier: Apache-2.0
// The Connect client for Node, with each of its transports, or those whose names start with the
// last argument.
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import {
  compressionGzip, createConnectTransport, createGrpcTransport, createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import {
  assert, contractSet, echoSet, equal, eventually, run, startCayd, startEchod, test, throws,
} from "./harness.mjs";

const registryOf = (bytes) => createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
const Echo = registryOf(echoSet()).getService("cay.test.v1.EchoService");
const contract = registryOf(contractSet());
const ErrorInfo = contract.getMessage("cay.v1.ErrorInfo");
const MIB = 1024 * 1024;

const echod = await startEchod();
const guarded = await startEchod("--key", "s3cret");

/** name -> [options of a base URL to a transport, what it can do] */
const kinds = {
  "connect h1 binary": (o) => createConnectTransport({ httpVersion: "1.1", useBinaryFormat: true, ...o }),
  "connect h1 JSON": (o) => createConnectTransport({ httpVersion: "1.1", useBinaryFormat: false, ...o }),
  "connect h2 binary": (o) => createConnectTransport({ httpVersion: "2", useBinaryFormat: true, ...o }),
  "connect h2 JSON": (o) => createConnectTransport({ httpVersion: "2", useBinaryFormat: false, ...o }),
  "gRPC": (o) => createGrpcTransport({ httpVersion: "2", ...o }),
  "gRPC JSON": (o) => createGrpcTransport({ httpVersion: "2", useBinaryFormat: false, ...o }),
  "gRPC-Web h1": (o) => createGrpcWebTransport({ httpVersion: "1.1", ...o }),
  "gRPC-Web h2": (o) => createGrpcWebTransport({ httpVersion: "2", ...o }),
};

const wanted = process.argv[6] ?? "";
const chosen = Object.keys(kinds).filter((name) => name.startsWith(wanted));
const managers = [];
function transport(kind, options = {}) {
  const baseUrl = options.baseUrl ?? echod.url;
  const extra = {};
  if (!kind.includes("h1")) {
    extra.sessionManager = new Http2SessionManager(baseUrl);
    managers.push(extra.sessionManager);
  }
  return kinds[kind]({ baseUrl, ...extra, ...options });
}
const client = (kind, options) => createClient(Echo, transport(kind, options));
const stats = () => client("connect h1 JSON").stats({});

const pattern = Uint8Array.from({ length: 8 * MIB }, (_, at) => at * 7);
const bytes = (size) => pattern.subarray(0, size);

async function* messages(...list) {
  for (const message of list) yield message;
}

async function collect(stream) {
  const all = [];
  for await (const message of stream) all.push(message);
  return all;
}

for (const kind of chosen) {
  test(`${kind}: unary`, async () => {
    const echo = client(kind);
    for (const size of [0, 1, 1000, 300_000]) {
      const answer = await echo.unary({
        payload: bytes(size), text: "grüß 😀", number: -9007199254740993n, labels: { a: "b", "": "" },
        values: [0.1, NaN, -Infinity], when: { seconds: 1709208000n, nanos: 5000 }, flag: false,
      });
      assert(Buffer.from(answer.payload).equals(Buffer.from(bytes(size))), "the payload");
      equal([answer.text, answer.number, answer.labels, answer.flag, answer.when.nanos],
        ["grüß 😀", -9007199254740993n, { a: "b", "": "" }, false, 5000]);
      assert(Number.isNaN(answer.values[1]) && answer.values[2] === -Infinity, answer.values);
      equal([answer.method, answer.owner], ["Unary", "local"]);
    }
    equal((await echo.unary({})).flag, undefined);
  });

  test(`${kind}: server stream`, async () => {
    const got = await collect(client(kind).serverStream({ count: 300, sizeBytes: 5000 }));
    equal(got.map((m) => m.index), Array.from({ length: 300 }, (_, n) => n));
    assert(got.every((m) => m.payload.length === 5000));
    equal((await collect(client(kind).serverStream({}))).length, 0);
  });

  test(`${kind}: client stream`, async () => {
    const list = Array.from({ length: 200 }, (_, n) => ({ payload: bytes(n * 50) }));
    const answer = await client(kind).clientStream(messages(...list));
    equal([answer.messages, answer.bytes], [200n, 995000n]);
    equal((await client(kind).clientStream(messages())).messages, 0n);
  });

  test(`${kind}: bidirectional stream`, async () => {
    if (kind.includes("h1")) {
      const list = [1, 2, 3].map((n) => ({ payload: bytes(n) }));
      try {
        equal((await collect(client(kind).bidi(messages(...list)))).map((m) => m.payload.length), [1, 2, 3]);
      } catch (error) {
        // The client may refuse to try; then there is nothing to see of the server.
        equal(ConnectError.from(error).code, Code.Unimplemented, error.message);
      }
      return;
    }
    let send;
    async function* turns() {
      for (let n = 1; n <= 50; n++) {
        yield { payload: bytes(n) };
        await new Promise((resolve) => (send = resolve));
      }
    }
    let seen = 0;
    for await (const message of client(kind).bidi(turns())) {
      equal(message.payload.length, ++seen, "the size"); // each comes before the next is sent
      send();
    }
    equal(seen, 50);
  });

  test(`${kind}: errors carry code, sentence and reason`, async () => {
    const echo = client(kind);
    const text = 'the session \'ü\' is "gone", 100%\n';
    for (const [reason, code] of [
      ["session_not_found", Code.NotFound], ["session_paused", Code.FailedPrecondition],
      ["no_space", Code.ResourceExhausted], ["unavailable", Code.Unavailable],
      ["internal", Code.Internal], ["permission_denied", Code.PermissionDenied],
      ["data_loss", Code.DataLoss], ["out_of_range", Code.OutOfRange],
      ["session_exists", Code.AlreadyExists],
    ]) {
      await throws(echo.fail({ reason, text }), (error) => {
        const found = ConnectError.from(error);
        equal([found.code, found.rawMessage], [code, text], reason);
        equal(found.findDetails(ErrorInfo).map((d) => d.reason), [reason], "the detail");
      });
    }
    await throws(echo.unimplemented({}), (error) => equal(ConnectError.from(error).code, Code.Unimplemented));
    await throws(collect(echo.serverStream({ count: 2, failReason: "no_space" })), (error) => {
      equal(ConnectError.from(error).code, Code.ResourceExhausted);
      equal(ConnectError.from(error).findDetails(ErrorInfo)[0].reason, "no_space");
    });
    equal((await echo.unary({ text: "well" })).text, "well");
  });

  test(`${kind}: cancellation reaches the server`, async () => {
    const before = await stats();
    const echo = client(kind);
    for (const start of [
      (signal) => echo.slow({ delayMs: 600_000 }, { signal }),
      (signal) => collect(echo.serverStream({ count: 1000, delayMs: 100 }, { signal })),
    ]) {
      const abort = new AbortController();
      const call = throws(start(abort.signal), (error) => equal(ConnectError.from(error).code, Code.Canceled));
      await eventually(async () => (await stats()).liveCalls === before.liveCalls + 1n, "the call runs");
      abort.abort();
      await call;
      await eventually(async () => (await stats()).liveCalls === before.liveCalls, "the call ends");
    }
    equal((await stats()).cancelledCalls, before.cancelledCalls + 2n);
  });

  test(`${kind}: an error is seen although the client still sends`, async () => {
    const list = Array.from({ length: 300 }, () => ({ payload: bytes(10_000) }));
    await throws(client(kind, { baseUrl: guarded.url }).clientStream(messages(...list)), (error) =>
      equal(ConnectError.from(error).code, Code.Unauthenticated, error.message));
    await throws(collect(client(kind).bidi(messages({ failReason: "no_space" }, ...list))), (error) =>
      equal(ConnectError.from(error).code, Code.ResourceExhausted, error.message));
    // Node's HTTP/2 client runs into its own limit of memory, its JSON encoder takes seconds.
    if (kind.includes("h1") && !kind.includes("JSON"))
      await throws(client(kind).clientStream(messages({ payload: new Uint8Array(17 * MIB) })), (error) =>
        equal(ConnectError.from(error).code, Code.ResourceExhausted, error.message));
  });

  test(`${kind}: timeouts`, async () => {
    const echo = client(kind);
    const answer = await echo.unary({}, { timeoutMs: 60_000 });
    assert(answer.deadlineMs > 50_000n && answer.deadlineMs <= 60_000n, answer.deadlineMs);
    equal((await echo.unary({})).deadlineMs, undefined);
    await throws(echo.slow({ delayMs: 600_000 }, { timeoutMs: 50 }), (error) =>
      equal(ConnectError.from(error).code, Code.DeadlineExceeded));
    await throws(collect(echo.serverStream({ count: 1000, delayMs: 20 }, { timeoutMs: 100 })), (error) =>
      equal(ConnectError.from(error).code, Code.DeadlineExceeded));
    await eventually(async () => (await stats()).liveCalls === 0n, "no call is left");
  });

  test(`${kind}: gzip both ways`, async () => {
    const echo = client(kind, {
      sendCompression: compressionGzip, acceptCompression: [compressionGzip], compressMinBytes: 0,
    });
    for (const size of [0, 10, 100_000]) {
      const text = "squeeze ".repeat(size / 8);
      equal((await echo.unary({ text })).text, text);
    }
    const got = await collect(echo.serverStream({ count: 20, sizeBytes: 50_000 }));
    assert(got.length === 20 && got.every((m) => m.payload.length === 50_000));
    const sum = await echo.clientStream(messages({ payload: bytes(50_000) }, { payload: bytes(1) }));
    equal(sum.bytes, 50_001n);
  });

  test(`${kind}: no compression`, async () => {
    const text = "plain ".repeat(20_000);
    equal((await client(kind, { acceptCompression: [] }).unary({ text })).text, text);
  });

  test(`${kind}: metadata and keys`, async () => {
    const headers = { "x-words": "a, b", "x-data-bin": "AAEC", "x-empty": "" };
    let seen;
    await client(kind).unary({}, { headers, onHeader: (h) => (seen = h) });
    assert(seen.get("content-type").startsWith("application/"));
    const echo = client(kind, { baseUrl: guarded.url });
    for (const bad of [{}, { authorization: "Bearer wrong" }, { "x-api-key": "" }]) {
      await throws(echo.unary({}, { headers: bad }), (error) => {
        equal(ConnectError.from(error).code, Code.Unauthenticated);
        equal(ConnectError.from(error).findDetails(ErrorInfo)[0].reason, "unauthenticated");
      });
      await throws(collect(echo.serverStream({ count: 1 }, { headers: bad })), (error) =>
        equal(ConnectError.from(error).code, Code.Unauthenticated));
    }
    for (const good of [{ authorization: "Bearer s3cret" }, { "x-api-key": "s3cret" }])
      equal((await echo.unary({}, { headers: good })).owner, "tester");
  });

  test(`${kind}: messages of many megabytes`, async () => {
    const isJson = kind.includes("JSON"); // slow to encode in this client
    const payload = bytes(isJson ? MIB : 8 * MIB);
    const answer = await client(kind, { writeMaxBytes: 64 * MIB }).unary({ payload });
    assert(Buffer.from(answer.payload).equals(Buffer.from(payload)), "the payload");
    const tooLarge = isJson ? { text: "x".repeat(17 * MIB) } : { payload: new Uint8Array(17 * MIB) };
    await throws(client(kind).unary(tooLarge), (error) =>
      equal(ConnectError.from(error).code, Code.ResourceExhausted, error.message));
    equal((await client(kind).unary({ text: "still here" })).text, "still here");
  });

  test(`${kind}: many calls at once`, async () => {
    const echo = client(kind);
    const calls = Array.from({ length: 100 }, (_, n) => echo.slow({ delayMs: n % 20 }));
    await Promise.all(calls);
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => echo.unary({ number: BigInt(n) })));
    equal(answers.map((a) => Number(a.number)), Array.from({ length: 200 }, (_, n) => n));
  });
}

for (const kind of chosen.filter((name) => name.startsWith("connect"))) {
  test(`${kind}: GET for a method without side effects`, async () => {
    // Only the answer to a GET depends on headers in a way that caches must know.
    const isGet = [];
    const onHeader = (headers) => isGet.push(headers.has("vary"));
    const echo = client(kind, { useHttpGet: true });
    const answer = await echo.idempotentUnary({ text: "q=1&ü", payload: bytes(300) }, { onHeader });
    equal([answer.text, answer.method, answer.payload.length], ["q=1&ü", "IdempotentUnary", 300]);
    await echo.unary({}, { onHeader });
    equal(isGet, [true, false]);
    const zipped = client(kind, {
      useHttpGet: true, sendCompression: compressionGzip, acceptCompression: [compressionGzip],
      compressMinBytes: 0,
    });
    const text = "again ".repeat(3000);
    equal((await zipped.idempotentUnary({ text })).text, text);
    await throws(echo.idempotentUnary({}, { headers: { "connect-timeout-ms": "x" } }), (error) =>
      equal(ConnectError.from(error).code, Code.InvalidArgument));
  });
}

test("back-pressure: a slow consumer of a fast stream gets everything", async () => {
  let seen = 0;
  for await (const message of client("connect h2 binary").serverStream({ count: 400, sizeBytes: 65_536 })) {
    equal(message.index, seen++);
    if (seen % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  equal(seen, 400);
});

test("nothing is left on the server", async () => {
  for (const manager of managers) manager.abort();
  await eventually(async () => {
    const now = await stats();
    return now.liveCalls === 0n && now.openExchanges === 1n;
  }, "no call and no exchange");
});

let cayd;
test("cayd: health, keys and errors by every transport", async () => {
  cayd = await startCayd();
  try {
    const Sandbox = contract.getService("cay.v1.SandboxService");
    const Keys = contract.getService("cay.v1.KeyService");
    const headers = { authorization: `Bearer ${cayd.key}` };
    for (const kind of chosen) {
      const connect = (service) => createClient(service, transport(kind, { baseUrl: cayd.url }));
      assert((await connect(Sandbox).healthCheck({}, { headers })).status > 0, kind);
      const made = await connect(Keys).createKey({ owner: "somebody", name: kind }, { headers });
      assert(made.secret.startsWith("cay_"), made.secret);
      const { keys } = await connect(Keys).listKeys({ owner: "somebody" }, { headers });
      assert(keys.some((key) => key.id === made.key.id && key.name === kind), keys);
      await connect(Keys).revokeKey({ keyId: made.key.id }, { headers });
      const revoked = { authorization: `Bearer ${made.secret}` };
      for (const bad of [{}, revoked])
        await throws(connect(Keys).listKeys({}, { headers: bad }), (error) =>
          equal(ConnectError.from(error).code, Code.Unauthenticated, kind));
      await throws(connect(Keys).revokeKey({ keyId: "nothing" }, { headers }), (error) => {
        equal(ConnectError.from(error).code, Code.NotFound, kind);
        equal(ConnectError.from(error).findDetails(ErrorInfo)[0].reason, "key_not_found");
      });
    }
    const get = createClient(Sandbox, transport("connect h1 JSON", { baseUrl: cayd.url, useHttpGet: true }));
    assert((await get.healthCheck({}, { headers })).status > 0);
  } finally {
    for (const manager of managers) manager.abort();
    equal(await cayd.stop(), 0, "the status of cayd");
  }
});

await run(echod, guarded);
