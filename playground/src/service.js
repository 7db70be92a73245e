// Keeps the page's files, so that it works without a network. build.py writes FILES before it: path to SHA-256.
// A site has another one above the playground, which loads this: it keeps the pages whose kernels were run, too.
const CACHE = 'playground', PAGES = 'pages', INSIDE = location.pathname.endsWith('/playground/service.js');
const BASE = new URL(INSIDE ? './' : './playground/', location).href, SITE = new URL('./', location).href;
const keyOf = path => `${BASE}${path}?${FILES[path]}`;

// The first 32 bits of the fractional parts of roots: square roots of the first 8 primes, cube roots of the first 64.
const PRIMES = Array.from({ length: 312 }, (_, n) => n).filter(n => n > 1 && Array.from({ length: n }, (_, m) => m).every(m => m < 2 || n % m));
const fraction = root => Math.floor((root - Math.floor(root)) * 2 ** 32) | 0;
const BEGIN = Int32Array.from(PRIMES.slice(0, 8), prime => fraction(Math.sqrt(prime))), ROUNDS = Int32Array.from(PRIMES, prime => fraction(Math.cbrt(prime)));

/** SHA-256 of bytes that come in pieces. The browser's own takes all at once: a file of 23 MB would be in memory three times. */
class Digest {
  state = BEGIN.slice();
  words = new Int32Array(64);
  rest = new Uint8Array(64); // of a block that is not complete
  size = 0;

  add(bytes) {
    let at = 0, held = this.size % 64;
    this.size += bytes.length;
    if (held) {
      at = Math.min(64 - held, bytes.length);
      this.rest.set(bytes.subarray(0, at), held);
      held += at;
      if (held < 64) return;
      this.block(this.rest, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.block(bytes, at);
    this.rest.set(bytes.subarray(at));
  }

  block(bytes, at) {
    const { state, words } = this;
    for (let i = 0; i < 16; i++, at += 4) words[i] = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15], y = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10) | 0;
    }
    let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (let i = 0; i < 64; i++) {
      const one = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + ROUNDS[i] + words[i] | 0;
      const two = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
      h = g; g = f; f = e; e = d + one | 0; d = c; c = b; b = a; a = one + two | 0;
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e; state[5] += f; state[6] += g; state[7] += h;
  }

  /** The digest in hexadecimal; nothing can be added after it. */
  hex() {
    const bits = this.size * 8, end = new Uint8Array(64 + (119 - this.size % 64) % 64 - 55), view = new DataView(end.buffer);
    end[0] = 0x80;
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits);
    this.add(end);
    return Array.from(this.state, word => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }
}

/** A file, from the cache if it is there; else from the network, and into the cache. */
async function get(path, event) {
  const cache = await caches.open(CACHE), kept = await cache.match(keyOf(path));
  if (kept) return kept;
  const response = await fetch(BASE + path, { cache: 'no-cache' });
  if (response.ok) event.waitUntil(keep(cache, path, response.clone()));
  return response;
}

/** Keep what is of this version: a site may have been replaced in the meantime. The file is checked while it is stored. */
async function keep(cache, path, { body, headers }) {
  const digest = new Digest(), check = new TransformStream({
    transform(bytes, to) { digest.add(bytes); to.enqueue(bytes); },
    flush(to) { if (digest.hex() !== FILES[path]) to.error(new Error(`${path} is of another version`)); }, // then `put` stores nothing
  });
  await cache.put(keyOf(path), new Response(body.pipeThrough(check), { headers: { 'Content-Type': headers.get('Content-Type') ?? '' } })).catch(() => {});
}

/** Keep all files that are not kept yet, one after the other. */
async function keepAll() {
  const cache = await caches.open(CACHE);
  for (const path of Object.keys(FILES)) {
    if (await cache.match(keyOf(path))) continue;
    const response = await fetch(BASE + path, { cache: 'no-cache' });
    if (response.ok) await keep(cache, path, response);
  }
}

/** A page of the site, or its style: from the network, and without one as it was. */
async function getPage(request, event) {
  const cache = await caches.open(PAGES);
  try {
    const response = await fetch(request);
    if (response.ok && (await cache.match(request))) event.waitUntil(cache.put(request, response.clone()));
    return response;
  } catch (error) {
    const kept = await cache.match(request);
    if (kept) return kept;
    throw error;
  }
}

/** Whether all files of this version are in the cache. */
async function isKept() {
  const kept = new Set((await (await caches.open(CACHE)).keys()).map(({ url }) => url));
  return Object.keys(FILES).every(path => kept.has(keyOf(path)));
}

addEventListener('install', event => {
  const page = Object.keys(FILES).filter(path => !path.startsWith('engine/')); // the engine's come when it is loaded
  event.waitUntil(Promise.all(page.map(path => get(path, event).then(response => response.text()))));
});

addEventListener('activate', event => event.waitUntil((async () => {
  const cache = await caches.open(CACHE), ours = new Set(Object.keys(FILES).map(keyOf));
  await Promise.all((await cache.keys()).filter(({ url }) => !ours.has(url)).map(request => cache.delete(request)));
  await clients.claim();
})()));

addEventListener('fetch', event => {
  const [url] = event.request.url.split(/[?#]/), path = url.slice(BASE.length) || 'index.html';
  if (event.request.method === 'GET' && url.startsWith(BASE) && path in FILES) event.respondWith(get(path, event));
  else if (!INSIDE && event.request.method === 'GET' && url.startsWith(SITE)) event.respondWith(getPage(event.request, event));
});

addEventListener('message', event => {
  if (event.data === 'take over') skipWaiting();
  if (event.data === 'is all kept?') event.waitUntil(isKept().then(answer => event.ports[0].postMessage(answer)));
  if (event.data === 'keep all') {
    event.waitUntil(keepAll());
    if (!INSIDE) event.waitUntil(caches.open(PAGES).then(cache => cache.addAll([event.source.url.replace(/#.*/, ''), `${SITE}style.css`])));
  }
});
