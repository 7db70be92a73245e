// The page: the list of exercises, and for each a desk with its text.
import { Desk } from './desk.js';
import * as engine from './lab.js';
import { keep, read, unpacked } from './keep.js';
import * as own from './launch.js';
import { element } from './show.js';

const $ = id => document.getElementById(id);
const OWN = { number: 'own', title: 'A kernel of your own', text: `<p>Write any kernel, and say with what it is launched. Arrays that it writes are shown after the run.</p>
<details><summary>What this page can do</summary><ul>
<li>One kernel per run; device functions, templates and <code>__constant__</code> variables beside it. Host code does not run here.</li>
<li>Arguments are numbers and arrays of numbers: of 8 to 64 bits, halves, and vectors such as <code>float4</code>. <code>long</code> has 32 bits here.</li>
<li>All arrays together have at most 256 MB, a block at most 1,024 threads. Of an array the first 64 numbers are shown, of what is printed the first 20,000 letters.</li>
<li>The processor runs the blocks one after another. Count and check looks at each access, which takes longer: begin with a small grid.</li></ul></details>`, goals: [], hints: [], start: own.EXAMPLE.source };

const { parts, all } = await fetch('exercises.json').then(answer => answer.json()).then(data => ({ parts: data.parts, all: data.parts.flatMap(part => part.exercises) }));
let at = null, desk = null;

async function register() {
  const known = await navigator.serviceWorker.register('service.js');
  const offer = () => known.waiting && navigator.serviceWorker.controller && desk?.notice('There is a new version of this page.', 'Load it', () => {
    navigator.serviceWorker.addEventListener('controllerchange', () => location.reload());
    known.waiting.postMessage('take over');
  });
  offer();
  known.addEventListener('updatefound', () => known.installing?.addEventListener('statechange', offer));
}

// What is on the page --------------------------------------------------------------------------------------------------

function list() {
  const done = read('met') ?? {};
  $('parts').replaceChildren(...parts.flatMap(({ name, about, exercises }) => [
    element('h2', { className: 'part' }, name), element('p', {}, about),
    element('ol', { className: 'exercises' }, ...exercises.map(each => element('li', {},
      element('a', { href: `#${each.number}` }, element('span', { className: 'number' }, each.number), ' ', each.title),
      done[each.number] && element('span', { className: 'met' }, ' ✓ goal met')))),
  ]));
}

async function route() {
  desk?.save();
  const [number, ...rest] = location.hash.slice(1).split('&'), code = rest.find(each => each.startsWith('code='))?.slice(5);
  const before = at;
  at = number === 'own' ? OWN : all.find(each => each.number.toLowerCase() === number.toLowerCase()) ?? null;
  desk = null;
  $('contents').hidden = at !== null;
  $('desk').hidden = at === null;
  neighbours();
  document.title = `${at ? `${at === OWN ? '' : `${at.number} `}${at.title} – ` : ''}Playground – The CUDA convolution lab`;
  if (!at) {
    list();
    if (before) $('contents').querySelector('h1').focus();
    return;
  }
  const damaged = code !== undefined && !await linked(code);
  open();
  if (damaged) desk.say('The link is damaged: it carries no kernel.');
  scrollTo(0, 0);
  desk.prepare(); // not for the list: the engine is large
  if (before || code === undefined) $('task').querySelector('h1').focus({ preventScroll: true });
}

/** A kernel from a link takes the place of one's own, which is kept beside it. Returns whether there is one. */
async function linked(code) {
  const name = at.number;
  history.replaceState(null, '', `#${name}`);
  try {
    const { source, launch: theirs } = await unpacked(code), mine = read(name);
    if (mine && mine.source !== source) keep(`${name} before`, mine);
    keep(name, { source, launch: theirs });
    return true;
  } catch {
    return false;
  }
}

function open() {
  const name = at === OWN ? 'own' : at.number, label = at === OWN ? 'Kernel of your own, CUDA C++' : `Kernel of exercise ${name}, CUDA C++`;
  $('task').querySelector('h1').replaceChildren(at === OWN ? at.title : `${at.number} ${at.title}`);
  $('text').innerHTML = at.text;
  $('text').append(...[
    at.goals.length > 0 && element('div', { className: 'goals' }, element('h2', {}, 'Goals'), element('ul', {}, ...at.goals.map(goal => element('li', {}, goal)),
      at.lines && element('li', {}, `changed lines: at most ${at.lines}`))),
    element('div', { id: 'hints' }),
    at.page && element('p', { className: 'companion' }, 'From the page ', element('a', { href: at.page }, at.from), '. Its cell is the editor here, and ', element('code', {}, 'lab.grade'), ' is the button Grade.'),
  ].filter(Boolean));
  desk = new Desk({ kind: at === OWN ? 'own' : 'exercise', name, key: name, label, start: at.start }, { next: all[all.indexOf(at) + 1], answered: hints, link: `${location.href.split('#')[0]}#${name}&`, about: {} });
  $('work').replaceChildren(desk.root);
  hints();
  const small = engine.smallMemory();
  if (small) desk.notice(small, 'Try it', () => {});
}

function neighbours() {
  const i = all.indexOf(at), link = (each, before) => each ? element('a', { href: `#${each.number}`, rel: before ? 'prev' : 'next' }, before ? '← ' : '',
    element('span', { className: 'number' }, each.number), ' ', element('span', { className: 'name' }, each.title), before ? '' : ' →') : '';
  document.querySelector('.neighbours').replaceChildren(...(i < 0 ? [] : [link(all[i - 1], true), link(all[i + 1])]));
}

/** The hints that failed attempts have unlocked. */
function hints() {
  const unlocked = (read(`${at.number} hinted`) ?? []).length, due = at.hints.slice(0, unlocked);
  $('hints').replaceChildren(...(due.length ? [element('details', { open: false }, element('summary', {}, `Hints so far: ${due.length} of ${at.hints.length}`),
    element('ol', {}, ...due.map(hint => element('li', {}, hint))))] : []));
}

addEventListener('keydown', event => desk?.key(event), true);
addEventListener('hashchange', route);
addEventListener('pagehide', () => desk?.save());
if ('serviceWorker' in navigator) register().catch(() => {}); // without one, the page needs the network at each visit
fetch('../search.html', { method: 'HEAD' }).then(({ ok }) => ok && document.querySelector('.home').after(element('a', { className: 'find', href: '../search.html' }, 'Search'))).catch(() => {}); // not every site has it
await route();
