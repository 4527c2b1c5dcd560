// SPDX-License-Identifier: Apache-2.0
// Web servers for tests: web_servers.mjs FOLDER. HTTP/1.1 on port 80; HTTP/1.1 and HTTP/2 by TLS on 443, with FOLDER/key.pem
// and FOLDER/cert.pem. A path is a file in FOLDER/www/NAME, NAME being the host that is asked; below /git/ are repositories, served
// by git. What is sent to /digest is answered with its SHA-256, and /header/NAME with that of the request's header. Prints `ready` when it listens.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, readFileSync, statSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import path from 'node:path'

const folder = process.argv[2]

function digest(request, response) {
  const hash = createHash('sha256')
  request.on('data', (piece) => hash.update(piece)).on('end', () => response.end(hash.digest('hex')))
}

// As a web server does it for git-http-backend(1).
function git(request, response, url) {
  const environment = {
    PATH: process.env.PATH,
    GIT_PROJECT_ROOT: path.join(folder, 'www', 'git.test', 'git'),
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: url.pathname.slice('/git'.length),
    QUERY_STRING: url.search.slice(1),
    REQUEST_METHOD: request.method,
    CONTENT_TYPE: request.headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
    GIT_PROTOCOL: request.headers['git-protocol'] ?? '',
    GIT_CONFIG_COUNT: '1', // its files are those of whoever comes by ssh
    GIT_CONFIG_KEY_0: 'safe.directory',
    GIT_CONFIG_VALUE_0: '*',
  }
  const backend = spawn('git', ['http-backend'], { env: environment, stdio: ['pipe', 'pipe', 'inherit'] })
  request.pipe(backend.stdin)
  let head = ''
  backend.stdout.on('data', function take(piece) {
    head += piece.toString('latin1')
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    backend.stdout.off('data', take)
    for (const line of head.slice(0, end).split('\r\n')) {
      const [name, value] = line.split(': ')
      if (name === 'Status') response.statusCode = parseInt(value)
      else response.setHeader(name, value)
    }
    response.write(Buffer.from(head.slice(end + 4), 'latin1'))
    backend.stdout.pipe(response)
  })
}

function serve(request, response) {
  const host = (request.headers[':authority'] ?? request.headers.host).split(':')[0]
  const url = new URL(request.url, `http://${host}`)
  if (url.pathname.startsWith('/header/')) {
    return response.end(createHash('sha256').update(request.headers[url.pathname.slice('/header/'.length)] ?? '').digest('hex'))
  }
  if (url.pathname === '/digest') return digest(request, response)
  if (url.pathname.startsWith('/git/')) return git(request, response, url)
  const file = path.join(folder, 'www', host, decodeURIComponent(url.pathname))
  const name = url.pathname.endsWith('/') ? path.join(file, 'index.html') : file
  const size = statSync(name, { throwIfNoEntry: false })?.size
  if (size === undefined) {
    response.statusCode = 404
    return response.end()
  }
  response.setHeader('content-length', size)
  if (name.endsWith('.html')) response.setHeader('content-type', 'text/html')
  createReadStream(name).pipe(response)
}

const certificate = { key: readFileSync(`${folder}/key.pem`), cert: readFileSync(`${folder}/cert.pem`) }
const servers = [
  [http.createServer(serve), 80],
  [http2.createSecureServer({ ...certificate, allowHTTP1: true }, serve), 443],
]
for (const [server, port] of servers) await new Promise((listening) => server.listen(port, '::', listening))
console.log('ready')
