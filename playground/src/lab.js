// The engine of a page: one for all its desks, loaded when the first of them needs it. Requests wait for one another.
import { element } from './show.js';

const MEMORY = 700; // megabytes that the engine needs
let lab, loading, last = Promise.resolve(), running = null;
const waiting = new Map(); // owner of a request -> what rejects it before its turn

/** Load the engine, once. The promise is rejected if that fails, and then a further call tries it again. */
export function load() {
  return loading ??= (async () => {
    const stored = await isStored(), words = stored ? 'Starting the engine (it is stored on this computer)' : 'Loading the engine';
    progress(words);
    await served();
    if (!lab) {
      const { Lab } = await import('./lab.mjs');
      lab = new Lab();
    }
    await lab.init(({ done, total }) => progress(words, done, total, stored));
    progress('');
    workers()?.controller?.postMessage('keep all');
    return lab;
  })().catch(error => {
    loading = null;
    const memory = /memory|allocat/i.test(`${error.name} ${error.message}`) ? ` It needs about ${MEMORY} MB of memory, and this device has too little free. Close other tabs, or use a computer.` : '';
    for (const place of document.querySelectorAll('.load'))
      place.replaceChildren(element('p', { className: 'failure', role: 'alert' }, `The engine did not start: ${error.message}.${memory} `, element('button', { onclick: () => load().catch(() => {}) }, 'Try again')));
    throw error;
  });
}

/**
 * Ask the engine, after what others have asked: a promise of the result. `owner.begun()` is called when it is this request's
 * turn.
 */
export function ask(owner, method, request, progress) {
  const turn = new Promise((go, drop) => { waiting.set(owner, drop); last.then(go); });
  const answer = turn.then(load).then(() => {
    waiting.delete(owner);
    running = owner;
    owner.begun?.();
    return lab[method](request, progress);
  }).finally(() => { if (running === owner) running = null; });
  last = Promise.allSettled([last, answer]);
  return answer;
}

/** Whether the engine works for another desk. */
export const isTaken = owner => ![null, owner].includes(running?.for ?? running);

/** End what runs for this owner, or what it has asked for next. */
export async function stop(owner) {
  waiting.get(owner)?.(Object.assign(new Error('stopped'), { name: 'Stopped' }));
  if (running === owner) await lab.stop();
}

/** Let a service worker keep what a page of the site needs to run its kernels without a network. */
export async function keepPage() {
  const known = await workers()?.register(new URL('../service.js', import.meta.url)).catch(() => null);
  known?.waiting?.postMessage('take over'); // an older one would answer with older files
}

/** A line about the memory of this device, if it has too little for the engine; else "". */
export const smallMemory = () => (navigator.deviceMemory < 2 ? `This device reports ${navigator.deviceMemory} GB of memory. The engine needs about ${MEMORY} MB of it, and may not start.` : '');

/** Tell how far the engine is, at every desk. */
function progress(words, done = 0, total = 0, stored = false) {
  const megabytes = bytes => (bytes / 1e6).toFixed(0);
  for (const place of document.querySelectorAll('.load')) {
    if (!words) place.replaceChildren();
    else if (!place.querySelector('progress')) place.replaceChildren(element('label', {}, element('span'), element('progress')));
    if (!words) continue;
    place.querySelector('span').textContent = `${words}${total && !stored ? `: ${megabytes(done)} of ${megabytes(total)} MB. Later visits need no network.` : ' …'}`;
    if (total) Object.assign(place.querySelector('progress'), { max: total, value: done });
  }
}

/** The browser's service workers; a sandbox has none. */
function workers() {
  try {
    return navigator.serviceWorker;
  } catch {
    return undefined;
  }
}

/** Wait until the service worker answers for this page's files, so that each is loaded once; for two seconds at most. */
async function served() {
  const known = workers();
  if (!known || known.controller) return;
  await Promise.race([
    new Promise(done => known.addEventListener('controllerchange', done, { once: true })), new Promise(done => setTimeout(done, 2000)),
  ]);
}

/** Whether the service worker has all files already, so that nothing is loaded; it has a second to say so. */
async function isStored() {
  const worker = workers()?.controller;
  if (!worker) return false;
  const { port1, port2 } = new MessageChannel();
  worker.postMessage('is all kept?', [port2]);
  return Promise.race([new Promise(done => { port1.onmessage = ({ data }) => done(data); }), new Promise(done => setTimeout(done, 1000, false))]);
}
