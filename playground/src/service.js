// Keeps the page's files, so that it works without a network. build.py writes FILES before it: path to SHA-256.
// A site has another one above the playground, which loads this: it keeps the pages whose kernels were run, too.
const CACHE = 'playground', PAGES = 'pages', INSIDE = location.pathname.endsWith('/playground/service.js');
const BASE = new URL(INSIDE ? './' : './playground/', location).href, SITE = new URL('./', location).href;
const keyOf = path => `${BASE}${path}?${FILES[path]}`;
const hex = bytes => Array.from(new Uint8Array(bytes), byte => byte.toString(16).padStart(2, '0')).join('');

/** A file, from the cache if it is there; else from the network, and into the cache. */
async function get(path, event) {
  const cache = await caches.open(CACHE), kept = await cache.match(keyOf(path));
  if (kept) return kept;
  const response = await fetch(BASE + path, { cache: 'no-cache' });
  if (response.ok) event.waitUntil(keep(cache, path, response.clone()));
  return response;
}

/** Keep what is of this version: a site may have been replaced in the meantime. */
async function keep(cache, path, response) {
  const bytes = await response.arrayBuffer();
  if (hex(await crypto.subtle.digest('SHA-256', bytes)) !== FILES[path]) return;
  await cache.put(keyOf(path), new Response(bytes, { headers: { 'Content-Type': response.headers.get('Content-Type') ?? '' } }));
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
    event.waitUntil(Promise.all(Object.keys(FILES).map(path => get(path, event))));
    if (!INSIDE) event.waitUntil(caches.open(PAGES).then(cache => cache.addAll([event.source.url.replace(/#.*/, ''), `${SITE}style.css`])));
  }
});
