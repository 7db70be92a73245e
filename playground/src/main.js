// The page: the list of exercises with those that one has solved, and a desk for a kernel of one's own.
import { Desk } from './desk.js';
import * as engine from './lab.js';
import { keep, read, unpacked } from './keep.js';
import * as own from './launch.js';
import { element } from './show.js';

const $ = id => document.getElementById(id);
const { parts } = await fetch('exercises.json').then(answer => answer.json());
let desk = null, moved = false;

async function register() {
  const known = await navigator.serviceWorker.register('service.js');
  const offer = () => known.waiting && navigator.serviceWorker.controller && desk?.notice('There is a new version of this page.', 'Load it', () => {
    navigator.serviceWorker.addEventListener('controllerchange', () => location.reload());
    known.waiting.postMessage('take over');
  });
  offer();
  known.addEventListener('updatefound', () => known.installing?.addEventListener('statechange', offer));
}

function list() {
  const done = read('met') ?? {};
  $('parts').replaceChildren(...parts.flatMap(({ name, about, exercises }) => [
    element('h2', { className: 'part' }, name), element('p', {}, about),
    element('ol', { className: 'exercises' }, ...exercises.map(each => element('li', {},
      element('a', { href: each.page }, element('span', { className: 'number' }, each.number), ' ', each.title),
      done[each.number] && element('span', { className: 'met' }, ' ✓ goal met')))),
  ]));
}

/** Show the list, or at "#own" the desk; "#own&code=…" carries a kernel. */
async function route() {
  desk?.save();
  desk = null;
  const isOwn = /^#own\b/.test(location.hash), [, code] = location.hash.match(/&code=(.*)/) ?? [], shown = $(isOwn ? 'desk' : 'contents');
  $('contents').hidden = isOwn;
  $('desk').hidden = !isOwn;
  document.title = `${isOwn ? 'A kernel of your own – ' : ''}Playground – The CUDA convolution lab`;
  if (isOwn) await open(code);
  else list();
  if (moved) shown.querySelector('h1').focus({ preventScroll: true });
  if (moved || isOwn) scrollTo(0, 0);
  moved = true;
}

async function open(code) {
  const damaged = code !== undefined && !await linked(code), { source: start } = own.EXAMPLE;
  desk = new Desk({ kind: 'own', key: 'own', label: 'Kernel of your own, CUDA C++', start }, { link: `${location.href.split('#')[0]}#own&`, about: {} });
  $('work').replaceChildren(desk.root);
  if (damaged) desk.say('The link is damaged: it carries no kernel.');
  const small = engine.smallMemory();
  if (small) desk.notice(small, 'Try it', () => {});
  desk.prepare(); // not for the list: the engine is large
}

/** A kernel from a link takes the place of one's own, which is kept beside it. Returns whether there is one. */
async function linked(code) {
  history.replaceState(null, '', '#own');
  try {
    const { source, launch } = await unpacked(code), mine = read('own');
    if (mine && mine.source !== source) keep('own before', mine);
    keep('own', { source, launch });
    return true;
  } catch {
    return false;
  }
}

addEventListener('keydown', event => desk?.key(event), true);
addEventListener('hashchange', route);
addEventListener('pageshow', () => $('contents').hidden || list()); // back from an exercise's page
addEventListener('pagehide', () => desk?.save());
if ('serviceWorker' in navigator) register().catch(() => {}); // without one, the page needs the network at each visit
fetch('../search.html', { method: 'HEAD' }).then(({ ok }) => ok && document.querySelector('.home').after(element('a', { className: 'find', href: '../search.html' }, 'Search'))).catch(() => {}); // not every site has it
await route();
