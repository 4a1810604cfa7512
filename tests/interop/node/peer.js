// One side of a TLS 1.3 connection for tests/interop/tls.sh, over Node's tls module.
//
//   node peer.js server PORT CERT KEY GROUPS [CA]        answers connections; asks for a certificate of CA
//   node peer.js client PORT CA GROUPS [CERT KEY]        sends a line and prints the first line of the answer
'use strict';
const fs = require('node:fs');
const tls = require('node:tls');

const [mode, port, first, second, third, fourth] = process.argv.slice(2);
const read = (file) => (file === undefined ? undefined : fs.readFileSync(file));

function fail(error) {
  console.error(String(error));
  process.exit(1);
}

if (mode === 'server') {
  const server = tls.createServer({
    cert: read(first),
    key: read(second),
    minVersion: 'TLSv1.3',
    ecdhCurve: third,
    ca: read(fourth),
    requestCert: fourth !== undefined,
  }, (socket) => {
    socket.on('data', (data) => socket.end(data));
    socket.on('error', (error) => console.error(String(error)));
  });
  server.on('tlsClientError', (error) => console.error(String(error)));
  server.listen(Number(port), '127.0.0.1');
} else {
  const socket = tls.connect({
    host: '127.0.0.1',
    port: Number(port),
    servername: 'localhost',
    ca: read(first),
    minVersion: 'TLSv1.3',
    ecdhCurve: second,
    cert: read(third),
    key: read(fourth),
  }, () => socket.write('hello\n'));
  socket.setTimeout(20000, () => fail('timeout'));
  socket.on('error', fail);
  socket.once('data', (data) => {
    process.stdout.write(data);
    socket.end();
  });
}
