// One side of a TLS 1.3 connection for tests/interop/tls.sh, over Node's tls module.
//
//   node peer.js server PORT CERT KEY GROUPS    answers connections
//   node peer.js client PORT CA GROUP           sends a line and prints the first line of the answer
'use strict';
const fs = require('node:fs');
const tls = require('node:tls');

const [mode, port, first, second, groups] = process.argv.slice(2);

function fail(error) {
  console.error(String(error));
  process.exit(1);
}

if (mode === 'server') {
  const server = tls.createServer({
    cert: fs.readFileSync(first),
    key: fs.readFileSync(second),
    minVersion: 'TLSv1.3',
    ecdhCurve: groups,
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
    ca: fs.readFileSync(first),
    minVersion: 'TLSv1.3',
    ecdhCurve: second,
  }, () => socket.write('hello\n'));
  socket.setTimeout(20000, () => fail('timeout'));
  socket.on('error', fail);
  socket.once('data', (data) => {
    process.stdout.write(data);
    socket.end();
  });
}
