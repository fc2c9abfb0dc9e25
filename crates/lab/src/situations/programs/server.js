// The same server as somebody writes it in node: HTTP, or lines where it speaks first. What it does wrong is in a
// file that it reads again; what it waited by itself it writes down.
const fs = require('fs'), http = require('http'), https = require('https'), net = require('net');
const [port, speaks, switchFile, logFile, cert] = process.argv.slice(2);
let wrong = {};
setInterval(() => { try { wrong = JSON.parse(fs.readFileSync(switchFile)); } catch { wrong = {}; } }, 50);
const now = () => Number(process.hrtime.bigint()) / 1e9;
const note = (what, s) => fs.appendFileSync(logFile, JSON.stringify({ t: now(), what, s }) + '\n');
const hits = (key) => wrong[key] && Math.floor(Math.random() * wrong[key]) === 0;
const think = (key, then) => {
  const s = wrong[key];
  if (!s || (key === 'delay' && Math.floor(Math.random() * (wrong.every || 1)) !== 0)) return then();
  setTimeout(() => { note(key, s); then(); }, 1000 * s);
};
const chunk = Buffer.alloc(65536, 'x');
const serve = (request, response) => {
  request.on('error', () => {});
  request.resume();
  request.on('end', () => think('delay', () => {
    if (hits('reset')) { note('reset', 0); return request.socket.resetAndDestroy(); }
    const path = request.url.slice(1);
    if (path === 'pieces') {
      response.writeHead(200, { 'Content-Length': 5000 });
      let left = 5;
      const piece = () => { response.write(chunk.subarray(0, 1000)); --left ? setTimeout(piece, 5) : response.end(); };
      return piece();
    }
    let left = Number(path) || 2;
    response.writeHead(200, { 'Content-Length': left });
    const more = () => {
      while (left > 0) {
        const part = chunk.subarray(0, Math.min(left, chunk.length));
        left -= part.length;
        if (!response.write(part) && left > 0) return response.once('drain', more);
      }
      response.end();
    };
    more();
  }));
};
const lines = (socket) => {
  socket.setNoDelay(true);
  socket.on('error', () => {});
  let text = '';
  think('greeting', () => {
    socket.write('220 ready\r\n');
    socket.on('data', (data) => {
      text += data;
      for (let at = text.indexOf('\r\n'); at >= 0; at = text.indexOf('\r\n')) {
        const [word, size] = text.slice(0, at).split(' ');
        text = text.slice(at + 2);
        if (word === 'push') {
          const timer = setInterval(() => think('delay', () =>
            socket.write('event ' + now() + '\r\n' + 'x'.repeat(400) + '\r\n')), 50);
          socket.on('close', () => clearInterval(timer));
        } else if (word === 'ask') {
          think('delay', () => hits('reset') ? (note('reset', 0), socket.resetAndDestroy())
            : socket.write('250 ok ' + 'x'.repeat(Number(size)) + '\r\n'));
        }
      }
    });
  });
};
const server = speaks === 'lines' ? net.createServer(lines)
  : speaks === 'tls' ? https.createServer({ key: fs.readFileSync(cert), cert: fs.readFileSync(cert) }, serve)
    : http.createServer({ keepAliveTimeout: 60000, noDelay: true }, serve);
if (server.keepAliveTimeout !== undefined) server.keepAliveTimeout = 60000;
server.listen(Number(port), '0.0.0.0', 128);
setTimeout(() => process.exit(0), 120000);
