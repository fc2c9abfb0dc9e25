// A caller in node, with a pool: each request is written down, a line of JSON each, in the kernel's clock.
const fs = require('fs'), http = require('http'), https = require('https');
const spec = JSON.parse(fs.readFileSync(process.argv[2]));
const now = () => Number(process.hrtime.bigint()) / 1e9;
const out = fs.openSync(spec.log, 'a');
const note = (line) => fs.writeSync(out, JSON.stringify(line) + '\n');
const open = new Map();
const wrong = () => { try { return JSON.parse(fs.readFileSync(spec.switch)); } catch { return {}; } };
const lib = spec.speaks === 'tls' ? https : http;
const agent = new lib.Agent({ keepAlive: spec.keep, maxSockets: spec.threads, rejectUnauthorized: false });
const ask = (began, tries, then) => {
  const [host, port] = spec.targets[tries % spec.targets.length];
  let first, size = 0, done = false;
  const end = (error) => {
    if (done) return;
    done = true;
    clearTimeout(timer);
    if (error && tries < spec.retries) return ask(began, tries + 1, then);
    open.delete(began);
    const line = { t: began, s: now() - began, n: size };
    if (first) line.f = first - began;
    if (error) line.e = error;
    note(line);
    setTimeout(then, error ? 100 : 0);
  };
  const request = lib.get({ host, port, agent, path: '/' + spec.size, rejectUnauthorized: false }, (response) => {
    first = now();
    response.on('data', (data) => { size += data.length; });
    response.on('end', () => end(response.statusCode === 200 ? null : 'status ' + response.statusCode));
    response.on('error', (e) => end(e.code || String(e)));
  });
  const timer = setTimeout(() => { request.destroy(); end('timeout'); }, 1000 * (wrong().patience || spec.patience));
  request.on('error', (e) => end(e.code || String(e)));
};
const loop = () => {
  const began = now();
  open.set(began, 1);
  ask(began, 0, () => setTimeout(loop, 1000 * spec.pause * (0.8 + 0.4 * Math.random())));
};
for (let i = 0; i < spec.threads; i++) setTimeout(loop, 100 * Math.random());
process.on('SIGTERM', () => {
  for (const began of open.keys()) note({ t: began, s: now() - began, n: 0, e: 'open' });
  process.exit(0);
});
setTimeout(() => process.exit(0), 120000);
