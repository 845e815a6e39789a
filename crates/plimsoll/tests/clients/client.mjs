// Node's fetch, which is undici, against a server: client.mjs URL LARGE_FILE. Says ok, or fails.

import assert from 'node:assert/strict';
import fs from 'node:fs';

const [url, file] = process.argv.slice(2);
const large = fs.readFileSync(file);
const text = 'all work and no play, '.repeat(500);
const bytes = async (answer) => Buffer.from(await answer.arrayBuffer());

// Thirty at a time, over connections that are used again.
for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(Array.from({ length: 30 }, () => fetch(url + '/1k.html')));
    for (const answer of answers) assert.equal(await answer.text(), 'k'.repeat(1024));
}
let answer = await fetch(url + '/1k.html');
const tag = answer.headers.get('etag');
await answer.text();
answer = await fetch(url + '/1k.html', { headers: { 'If-None-Match': tag } });
assert.equal(answer.status, 304);
assert.equal((await bytes(answer)).length, 0);
answer = await fetch(url + '/large.bin', { headers: { Range: 'bytes=-100' } });
assert.equal(answer.status, 206);
assert.deepEqual(await bytes(answer), large.subarray(-100));
assert.deepEqual(await bytes(await fetch(url + '/large.bin')), large);
answer = await fetch(url + '/text.txt');
assert.match(answer.headers.get('content-encoding'), /^(gzip|br|zstd)$/);
assert.equal(await answer.text(), text);
answer = await fetch(url + '/text.txt', { method: 'HEAD', headers: { 'Accept-Encoding': 'identity' } });
assert.equal(answer.headers.get('content-length'), String(text.length));
answer = await fetch(url + '/sub');
assert.ok(answer.redirected && answer.url.endsWith('/sub/'));
assert.equal(await answer.text(), '<h1>sub</h1>');
answer = await fetch(url + '/1k.html', { method: 'POST', body: 'x'.repeat(10000) });
assert.equal(answer.status, 405);
await answer.text();
assert.equal((await fetch(url + '/missing')).status, 404);
console.log('ok');
process.exit(0);
