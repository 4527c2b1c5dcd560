// SPDX-License-Identifier: Apache-2.0
// Programs behind the ports of E2B sandboxes: HTTP, streams and WebSockets through the door.
import { connect } from "node:net";
import { once } from "node:events";
import { createHash } from "node:crypto";
import { assert, equal, eventually, run, test, unstarted } from "./harness.mjs";
import { api, inside, sdks, serve, startE2b } from "./e2b_harness.mjs";

const daemon = await startE2b({ programs: { node: process.execPath } });
const { "2.51": sdk } = await sdks();
const PORT = 8000;

// Echoes, streams, ends in every way HTTP knows, and speaks WebSocket frames back as they came.
const SERVER = `
const http = require("http"), crypto = require("crypto");
const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  if (url.pathname === "/head") {
    response.setHeader("x-one", "1");
    response.setHeader("set-cookie", ["a=1", "b=2"]);
    return response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, raw: request.rawHeaders }));
  }
  if (url.pathname === "/echo") return request.pipe(response);
  if (url.pathname === "/status") { response.statusCode = Number(url.searchParams.get("code")); return response.end(); }
  if (url.pathname === "/length") { const body = Buffer.alloc(Number(url.searchParams.get("n")), "x"); response.setHeader("content-length", body.length); return response.end(body); }
  if (url.pathname === "/ticks") {
    let number = 0;
    const timer = setInterval(() => { response.write("tick " + number++ + "\\n"); }, 20);
    return response.on("close", () => { clearInterval(timer); server.closed = (server.closed || 0) + 1; });
  }
  if (url.pathname === "/closed") return response.end(String(server.closed || 0));
  if (url.pathname === "/until") { request.socket.write("HTTP/1.0 200 OK\\r\\n\\r\\nall of it"); return request.socket.end(); }
  if (url.pathname === "/junk") { request.socket.write("what?\\r\\n\\r\\n"); return request.socket.end(); }
  if (url.pathname === "/cut") { request.socket.write("HTTP/1.1 200 OK\\r\\ncontent-length: 10\\r\\n\\r\\nhalf"); return request.socket.end(); }
  if (url.pathname === "/split") { request.socket.write("HTTP/1.1 200 OK\\r\\nx-a: b\\x01c\\r\\n\\r\\n"); return request.socket.end(); }
  if (url.pathname === "/slow") return setTimeout(() => response.end("late"), 200);
  response.statusCode = 404;
  response.end();
});
server.on("upgrade", (request, socket, head) => {
  const accept = crypto.createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + "\\r\\n\\r\\n");
  // Client frames are masked; the echo is not.
  let buffer = head;
  socket.on("data", (data) => {
    buffer = Buffer.concat([buffer, data]);
    for (;;) {
      if (buffer.length < 6) return;
      let length = buffer[1] & 127, at = 2;
      if (length === 126) { if (buffer.length < 8) return; length = buffer.readUInt16BE(2); at = 4; }
      if (buffer.length < at + 4 + length) return;
      const mask = buffer.subarray(at, at + 4), body = Buffer.from(buffer.subarray(at + 4, at + 4 + length)).map((byte, i) => byte ^ mask[i % 4]);
      const frame = length < 126 ? Buffer.from([buffer[0], length]) : Buffer.from([buffer[0], 126, length >> 8, length & 255]);
      socket.write(Buffer.concat([frame, body]));
      if ((buffer[0] & 15) === 8) return socket.end();
      buffer = buffer.subarray(at + 4 + length);
    }
  });
  socket.on("error", () => {});
});
server.listen(${PORT});
`;

const options = { ...daemon.options, timeoutMs: 300_000 };
const sandbox = unstarted ? {} : await sdk.Sandbox.create(options);
const id = sandbox.sandboxId;
if (!unstarted) await serve(daemon, sandbox, SERVER, PORT);
const get = (path, init) => inside(daemon, id, PORT, path, init);

test("a request passes with its method, path, query and headers", async () => {
  const answer = await get("/head?a=%20b&c", { method: "PUT", headers: { "x-mine": "yes", connection: "close" } });
  equal(answer.status, 200);
  equal(answer.headers.get("x-one"), "1");
  equal(answer.headers.getSetCookie(), ["a=1", "b=2"]);
  const seen = await answer.json();
  equal([seen.method, seen.url, seen.headers["x-mine"]], ["PUT", "/head?a=%20b&c", "yes"]);
  equal(seen.headers.host, new URL(daemon.url).host);
  assert(seen.raw.includes("Host"), "Host is spelled so");
});

test("what is for the host stays outside; what is the program's own passes", async () => {
  const ask = async (headers) => (await (await get("/head", { headers })).json()).headers;
  const token = sandbox.envdAccessToken;
  const seen = await ask({ "x-api-key": daemon.key, "x-access-token": token, "e2b-traffic-access-token": "x",
    "e2b-anything": "x", authorization: `Bearer ${daemon.key}`, "x-mine": "yes" });
  equal(["x-api-key", "x-access-token", "authorization", ...Object.keys(seen).filter((name) => name.startsWith("e2b-"))]
    .filter((name) => name in seen), []);
  equal(seen["x-mine"], "yes");
  for (const ours of [token, "cay_0123456789", "e2b_0123456789"])
    equal((await ask({ authorization: `bearer ${ours}` })).authorization, undefined, ours);
  for (const theirs of ["Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", "Basic dXNlcjpjYXlfMQ==", "Token cay"])
    equal((await ask({ authorization: theirs })).authorization, theirs, theirs);
});

test("bodies of any size pass both ways", async () => {
  for (const size of [0, 1, 1000, 70_000, 3_000_000]) {
    const body = Buffer.alloc(size, "abc");
    const back = Buffer.from(await (await get("/echo", { method: "POST", body })).arrayBuffer());
    assert(back.equals(body), size);
  }
  const chunks = new ReadableStream({ start(controller) { for (let i = 0; i < 100; i++) controller.enqueue(Buffer.alloc(1000, String(i % 10))); controller.close(); } });
  equal((await (await get("/echo", { method: "POST", body: chunks, duplex: "half" })).text()).length, 100_000);
  equal((await (await get("/length?n=2000000")).arrayBuffer()).byteLength, 2_000_000);
});

test("every kind of answer passes", async () => {
  for (const code of [200, 201, 204, 301, 304, 404, 418, 500, 503])
    equal((await get(`/status?code=${code}`, { redirect: "manual" })).status, code);
  equal(await (await get("/until")).text(), "all of it", "until the end of the connection");
  const head = await get("/length?n=1234", { method: "HEAD" });
  equal([head.status, head.headers.get("content-length"), await head.text()], [200, "1234", ""]);
});

test("an answer that is none becomes 502, one that breaks off breaks off", async () => {
  for (const path of ["/junk", "/split"]) {
    const answer = await get(path);
    equal([answer.status, (await answer.json()).code], [502, 502], path);
  }
  const failed = await get("/cut").then((answer) => answer.text()).then(() => false, () => true);
  equal(failed, true, "a body that is too short");
});

test("a stream comes as it is made, and its end reaches the program", async () => {
  const stop = new AbortController();
  const answer = await get("/ticks", { signal: stop.signal });
  const reader = answer.body.getReader();
  let text = "";
  const started = Date.now();
  while (!text.includes("tick 3")) text += Buffer.from((await reader.read()).value).toString();
  assert(Date.now() - started < 10_000, "at once");
  stop.abort();
  await eventually(async () => Number(await (await get("/closed")).text()) > 0, "the program heard of it");
});

/** A WebSocket by hand: the frames as they are. */
async function webSocket(headers = { "e2b-sandbox-id": id, "e2b-sandbox-port": PORT }, url = daemon.url) {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  const lines = Object.entries({ host, upgrade: "websocket", connection: "Upgrade", "sec-websocket-version": 13,
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET /ws HTTP/1.1\r\n${lines.join("")}\r\n`);
  let buffer = Buffer.alloc(0), closed = false;
  socket.on("data", (data) => { buffer = Buffer.concat([buffer, data]); });
  socket.on("close", () => { closed = true; });
  socket.on("error", () => {});
  await eventually(() => buffer.includes("\r\n\r\n"), "a head");
  const end = buffer.indexOf("\r\n\r\n") + 4;
  const head = buffer.subarray(0, end).toString();
  buffer = buffer.subarray(end);
  return { socket, head, isClosed: () => closed, take: () => buffer, drop: (n) => { buffer = buffer.subarray(n); } };
}

function frame(text, opcode = 1) {
  const body = Buffer.from(text), mask = Buffer.from([1, 2, 3, 4]);
  const head = body.length < 126 ? Buffer.from([0x80 | opcode, 0x80 | body.length])
    : Buffer.from([0x80 | opcode, 0x80 | 126, body.length >> 8, body.length & 255]);
  return Buffer.concat([head, mask, body.map((byte, i) => byte ^ mask[i % 4])]);
}

async function talk(ws) {
  assert(ws.head.startsWith("HTTP/1.1 101 "), ws.head);
  const accept = createHash("sha1").update("dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  assert(ws.head.includes(accept), ws.head);
  for (let i = 0; i < 200; i++) ws.socket.write(frame(`m${i}`.padEnd(10)));
  await eventually(() => ws.take().length >= 200 * 12, "all echoes");
  assert(ws.take().subarray(199 * 12).toString().includes("m199"));
  ws.drop(200 * 12);
  ws.socket.write(frame("x".repeat(60_000)));
  await eventually(() => ws.take().length >= 60_004, "a large echo");
  ws.drop(60_004);
  ws.socket.write(frame("", 8));
  await eventually(ws.isClosed, "closed");
}

test("WebSockets pass both ways, many frames and large ones, until they close", async () => {
  await talk(await webSocket());
});

test("and so they do through an exposed port", async () => {
  await daemon.call("ProcessService/UnexposePort", { sessionId: id, port: PORT });
  const { port } = await daemon.call("ProcessService/ExposePort", { sessionId: id, port: { port: PORT } });
  await talk(await webSocket({}, `http://${port.address}`));
});

test("the same connection goes to sandboxes and to the control plane in turn", async () => {
  const other = await sdk.Sandbox.create(options);
  const { hostname, port } = new URL(daemon.url);
  const socket = connect(Number(port), hostname);
  let text = "";
  socket.on("data", (data) => { text += data; });
  const ask = async (path, headers) => {
    text = "";
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`);
    await eventually(() => text.includes("\r\n\r\n"), path);
    return Number(text.split(" ")[1]);
  };
  equal(await ask("/slow", { "e2b-sandbox-id": id, "e2b-sandbox-port": PORT }), 200);
  equal(await ask(`/sandboxes/${id}`, { "x-api-key": daemon.key }), 200);
  equal(await ask("/slow", { "e2b-sandbox-id": other.sandboxId, "e2b-sandbox-port": PORT }), 502);
  equal(await ask("/health", { "e2b-sandbox-id": other.sandboxId, "e2b-sandbox-port": 49983 }), 204);
  equal(await ask("/healthz", {}), 200);
  socket.destroy();
  await other.kill();
});

test("a closed port says so, in JSON or as a page", async () => {
  const answer = await inside(daemon, id, 8001, "/");
  equal(answer.status, 502);
  equal(await answer.json(), { sandboxId: id, message: "The sandbox is running but port is not open", port: 8001, code: 502 });
  const page = await inside(daemon, id, 8001, "/", { headers: { accept: "text/html,*/*" } });
  equal([page.status, page.headers.get("content-type").split(";")[0]], [502, "text/html"]);
  const nowhere = await inside(daemon, "inothere", 8001, "/", { headers: { accept: "text/html" } });
  equal([nowhere.status, nowhere.headers.get("content-type").split(";")[0]], [502, "text/html"]);
  assert((await nowhere.text()).includes("The sandbox was not found"));
  const files = await inside(daemon, "inothere", 49983, "/health", { headers: { accept: "text/html" } });
  equal(files.headers.get("content-type"), "application/json", "what programs talk to");
});

test("private ports need the traffic token", async () => {
  const { json } = await api(daemon, "POST", "/v2/sandboxes", { timeout: 60, network: { allowPublicTraffic: false, maskRequestHost: "app-${PORT}.internal" } });
  assert(json.trafficAccessToken, json);
  await serve(daemon, { sandboxId: json.sandboxID }, SERVER, PORT);
  const ask = (headers) => inside(daemon, json.sandboxID, PORT, "/head", { headers });
  for (const headers of [{}, { "e2b-traffic-access-token": "wrong" }, { "e2b-traffic-access-token": json.envdAccessToken }]) {
    const answer = await ask(headers);
    equal([answer.status, (await answer.json()).code], [403, 403], JSON.stringify(headers));
  }
  const seen = await (await ask({ "e2b-traffic-access-token": json.trafficAccessToken })).json();
  equal(seen.headers.host, "app-8000.internal", "the masked host");
  equal(seen.headers["e2b-traffic-access-token"], undefined, "the token stays outside");
  equal((await inside(daemon, json.sandboxID, 49983, "/health")).status, 204, "envd is not behind it");
  await api(daemon, "DELETE", `/sandboxes/${json.sandboxID}`);
});

test("100 requests at once", async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, async (_, i) =>
    (await get("/echo", { method: "POST", body: `${i}`.repeat(1000) })).text()));
  answers.forEach((text, i) => equal(text, `${i}`.repeat(1000)));
});

test("a paused sandbox cuts its streams, and its program goes on when it is resumed", async () => {
  const answer = await get("/ticks");
  const reader = answer.body.getReader();
  await reader.read();
  const ws = await webSocket();
  equal(await sandbox.pause(), true);
  const failed = await (async () => { for (;;) if ((await reader.read()).done) return false; })().catch(() => true);
  equal(failed, true, "the stream is cut, not ended");
  await eventually(ws.isClosed, "the socket is closed");
  const refused = await get("/head");
  equal([refused.status, /paused/.test((await refused.json()).why)], [502, true]);
  await sandbox.connect({ timeoutMs: 300_000 });
  equal((await get("/head")).status, 200, "it still listens");
});

test("traffic to a port wakes a sandbox that sleeps, with the request's body", async () => {
  const { json } = await api(daemon, "POST", "/v2/sandboxes", { timeout: 300, autoPause: true, autoResume: { enabled: true } });
  await serve(daemon, { sandboxId: json.sandboxID }, SERVER, PORT);
  for (const size of [5, 600_000]) {
    equal((await api(daemon, "POST", `/sandboxes/${json.sandboxID}/pause`, {})).status, 204);
    const body = "x".repeat(size);
    const answer = await inside(daemon, json.sandboxID, PORT, "/echo", { method: "POST", body });
    equal([answer.status, (await answer.text()).length], [200, size]);
  }
  await api(daemon, "DELETE", `/sandboxes/${json.sandboxID}`);
});

test("a killed sandbox cuts its streams", async () => {
  const answer = await get("/ticks");
  const reader = answer.body.getReader();
  await reader.read();
  const ws = await webSocket();
  await sandbox.kill();
  const failed = await (async () => { for (;;) if ((await reader.read()).done) return false; })().catch(() => true);
  equal(failed, true, "the stream is cut, not ended");
  await eventually(ws.isClosed, "the socket is closed");
  equal((await get("/head")).status, 502);
});

await run(daemon);
