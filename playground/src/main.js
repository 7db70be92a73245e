// The page: the list of exercises, and for each a desk with its text, an editor and the results.
import { Editor } from './editor.js';
import * as engine from './engine.js';
import { digest, keep, packed, read, unpacked } from './keep.js';
import * as own from './launch.js';
import * as show from './show.js';

const { element } = show, $ = id => document.getElementById(id);
const MEMORY = 600; // megabytes that the engine needs
const OWN = { number: 'own', title: 'A kernel of your own', text: `<p>Write any kernel, and say with what it is launched. Arrays that it writes are shown after the run.</p>
<details><summary>What this page can do</summary><ul>
<li>One kernel per run; device functions, templates and <code>__constant__</code> variables beside it. Host code does not run here.</li>
<li>Arguments are numbers and arrays of numbers: of 8 to 64 bits, halves, and vectors such as <code>float4</code>. <code>long</code> has 32 bits here.</li>
<li>All arrays together have at most 256 MB, a block at most 1,024 threads. Of an array the first 64 numbers are shown, of what is printed the first 20,000 letters.</li>
<li>The processor runs the blocks one after another. Count and check looks at each access, which takes longer: begin with a small grid.</li></ul></details>`, goals: [], hints: [], start: own.EXAMPLE.source };

const { parts, all } = await fetch('exercises.json').then(answer => answer.json()).then(data => ({ parts: data.parts, all: data.parts.flatMap(part => part.exercises) }));
const editor = new Editor($('editor'), edited);
let at = null, launch = null, saving = 0, working = false;

// The engine -----------------------------------------------------------------------------------------------------------

let loading = null, ready = false;

function load() {
  return loading ??= (async () => {
    const stored = await isStored(), words = stored ? 'Starting the engine (it is stored on this computer)' : 'Loading the engine';
    progress(words);
    await served();
    await engine.init((done, total) => progress(words, done, total, stored));
    for (const { number, missing } of await engine.exercises()) Object.assign(all.find(each => each.number === number) ?? {}, { missing });
    ready = true;
    if (!at) list();
    progress('');
    if (at) engine.prepare(at === OWN ? { source: editor.text } : { exercise: at.number, source: editor.text }).catch(() => {}); // the first takes longest
    navigator.serviceWorker?.controller?.postMessage('keep all');
  })().catch(error => {
    loading = null;
    const memory = /memory|allocat/i.test(`${error.name} ${error.message}`) ? ` It needs about ${MEMORY} MB of memory, and this device has too little free. Close other tabs, or use a computer.` : '';
    for (const place of document.querySelectorAll('.load'))
      place.replaceChildren(element('p', { className: 'failure', role: 'alert' }, `The engine did not start: ${error.message}.${memory} `, element('button', { onclick: () => load().catch(() => {}) }, 'Try again')));
    throw error;
  });
}

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

/** Wait until the service worker answers for this page's files, so that each is loaded once; for two seconds at most. */
async function served() {
  const workers = navigator.serviceWorker;
  if (!workers || workers.controller) return;
  await Promise.race([
    new Promise(done => workers.addEventListener('controllerchange', done, { once: true })), new Promise(done => setTimeout(done, 2000)),
  ]);
}

/** Whether the service worker has all files already, so that nothing is loaded; it has a second to say so. */
async function isStored() {
  const worker = navigator.serviceWorker?.controller;
  if (!worker) return false;
  const { port1, port2 } = new MessageChannel();
  worker.postMessage('is all kept?', [port2]);
  return Promise.race([new Promise(done => { port1.onmessage = ({ data }) => done(data); }), new Promise(done => setTimeout(done, 1000, false))]);
}

async function register() {
  const known = await navigator.serviceWorker.register('service.js');
  const offer = () => known.waiting && navigator.serviceWorker.controller && notice('There is a new version of this page.', 'Load it', () => {
    navigator.serviceWorker.addEventListener('controllerchange', () => location.reload());
    known.waiting.postMessage('take over');
  });
  offer();
  known.addEventListener('updatefound', () => known.installing?.addEventListener('statechange', offer));
}

// What is on the desk --------------------------------------------------------------------------------------------------

const met = () => read('met') ?? {};

function list() {
  const done = met();
  $('parts').replaceChildren(...parts.flatMap(({ name, about, exercises }) => [
    element('h2', { className: 'part' }, name), element('p', {}, about),
    element('ol', { className: 'exercises' }, ...exercises.map(each => element('li', {},
      element('a', { href: `#${each.number}` }, element('span', { className: 'number' }, each.number), ' ', each.title),
      done[each.number] && element('span', { className: 'met' }, ' ✓ goal met'), each.missing && element('span', { className: 'met' }, ` ${each.missing}`)))),
  ]));
}

async function route() {
  save();
  const [number, ...rest] = location.hash.slice(1).split('&'), code = rest.find(each => each.startsWith('code='))?.slice(5);
  const before = at;
  at = number === 'own' ? OWN : all.find(each => each.number.toLowerCase() === number.toLowerCase()) ?? null;
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
  if (damaged) say('The link is damaged: it carries no kernel.');
  scrollTo(0, 0);
  if (!navigator.connection?.saveData) load().catch(() => {}); // not for the list: it is large
  if (before || code === undefined) $('task').querySelector('h1').focus({ preventScroll: true });
}

/** A kernel from a link takes the place of one's own, which is kept beside it. Returns whether there is one. */
async function linked(code) {
  history.replaceState(null, '', `#${at.number}`);
  try {
    const { source, launch: theirs } = await unpacked(code), mine = read(at.number);
    if (mine && mine.source !== source) keep(`${at.number} before`, mine);
    return keep(at.number, { source, launch: theirs });
  } catch {
    return false;
  }
}

function open() {
  const kept = read(at.number), before = read(`${at.number} before`);
  editor.open(kept?.source ?? at.start, at === OWN ? 'Kernel of your own, CUDA C++' : `Kernel of exercise ${at.number}, CUDA C++`);
  launch = structuredClone(kept?.launch ?? own.EXAMPLE.launch);
  $('task').querySelector('h1').replaceChildren(at === OWN ? at.title : `${at.number} ${at.title}`);
  $('text').innerHTML = at.text;
  $('text').append(...[
    at.goals.length > 0 && element('div', { className: 'goals' }, element('h2', {}, 'Goals'), element('ul', {}, ...at.goals.map(goal => element('li', {}, goal)),
      at.lines && element('li', {}, `changed lines: at most ${at.lines}`))),
    element('div', { id: 'hints' }),
    at.page && element('p', { className: 'companion' }, 'From the page ', element('a', { href: at.page }, at.from), '. Its cell is the editor here, and ', element('code', {}, 'lab.grade'), ' is the button Grade.'),
  ].filter(Boolean));
  hints();
  $('grade').hidden = at === OWN;
  $('launch').hidden = at !== OWN;
  if (at === OWN) own.draw($('launch'), editor.text, launch, changed);
  $('results').replaceChildren();
  $('notice').hidden = true;
  if (before) notice('This kernel came with a link.', 'Back to mine', () => { keep(at.number, before); keep(`${at.number} before`, null); at && open(); });
  say('');
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

function changed() {
  clearTimeout(saving);
  saving = setTimeout(save, 300);
}

function edited() {
  changed();
  if (at === OWN) own.draw($('launch'), editor.text, launch, changed);
}

function save() {
  if (!saving) return;
  clearTimeout(saving);
  saving = 0;
  const text = editor.text, plain = text === at.start && at !== OWN;
  if (!keep(at.number, plain ? null : { source: text, ...(at === OWN && { launch }) })) say('This browser keeps nothing: copy your kernel before you close the page.');
}

const say = text => { $('status').textContent = text; };

function notice(words, action, then) {
  $('notice').replaceChildren(words, ' ', element('button', { onclick: () => { $('notice').hidden = true; then(); } }, action));
  $('notice').hidden = false;
}

// What the buttons do --------------------------------------------------------------------------------------------------

const DOING = { run: 'Compiling …', check: 'Compiling …', grade: 'Grading: hidden shapes, then the goals …' };
const RUNNING = { run: 'Running …', check: 'Counting and checking …' };

async function act(what) {
  if (!at || working || (what === 'grade' && at === OWN)) return;
  const asked = at, source = editor.text, clicked = performance.now();
  $('results').replaceChildren();
  editor.mark([]);
  try {
    const request = { ...(at === OWN ? own.request(source, launch) : { exercise: at.number, source }), first: show.SHOWN };
    busy(true);
    say(ready ? DOING[what] : 'The engine is loading first …');
    await load();
    if (asked.missing) return say(`Exercise ${asked.number} is not offered here: ${asked.missing}`);
    say(DOING[what]);
    const come = news => news.part === 'running' ? RUNNING[what] && say(RUNNING[what]) : follow(news);
    const { shapes, ...sent } = request;
    const result = what === 'grade' ? await gradeIt(asked, source, come) : await engine[what](sent, come);
    if (asked === at) answer(what, result, shapes, performance.now() - clicked);
  } catch (error) {
    say(error.name === 'Stopped' ? 'Stopped.' : error.message);
  } finally {
    busy(false);
  }
}

/** Grade an attempt; a failed one unlocks a hint as `lab.grade` does it: once, and not if it is told otherwise what to do. */
async function gradeIt({ number }, source, come) {
  const [failed, hinted] = ['failed', 'hinted'].map(kind => read(`${number} ${kind}`) ?? []), mine = await digest(source);
  const known = hinted.includes(mine), again = known || failed.some(each => each !== mine);
  const result = await engine.grade({ exercise: number, source, hint: again ? hinted.length + !known : 0 }, come);
  if (result.passed) keep('met', { ...met(), [number]: new Date().toISOString().slice(0, 10) });
  else if (!/starting code|refused/.test(result.verdict) && !failed.includes(mine)) keep(`${number} failed`, [...failed, mine]);
  if (/(^|\n)Hint \d/.test(result.advice) && !known) keep(`${number} hinted`, [...hinted, mine]);
  return result;
}

function answer(what, result, shapes, waited) {
  const marks = (result.messages ?? []).filter(each => each.kind !== 'note').map(each => ({ ...each, severity: each.kind.includes('error') ? 'error' : 'warning', message: each.text }));
  for (const { kind, message, line, other } of show.grouped(result.findings)) {
    marks.push({ line, severity: 'error', message: `${kind}: ${message}` });
    if (other?.line && other.line !== line) marks.push({ line: other.line, severity: 'error', message: `${kind}, with line ${line}` });
  }
  editor.mark(marks);
  $('results').replaceChildren(...(what === 'grade' ? show.graded(result, at.solution, all[all.indexOf(at) + 1]) : show.ran(result, what === 'check', shapes)));
  say(what === 'grade' ? `${at.number}: ${result.verdict}.` : show.sentence(result, what === 'check', waited));
  hints();
  if (matchMedia('(max-width: 1000px)').matches) $('status').scrollIntoView(); // a narrow screen has them below the editor
}

let clock = 0, far = '';

/** How far the work has come: modules and cases of a grade, blocks of a launch. */
function follow({ part, done, total }) {
  if (part === 'compile') far = `, compiling ${done} of ${total}`;
  if (part === 'cases') far = `, case ${done} of ${total}`;
  if (part === 'blocks') far = `${far.replace(/: \d.*/, '')}: ${Math.min(99, Math.floor(100 * done / total))} % of the blocks`;
}

function busy(now) {
  working = now;
  clearInterval(clock);
  const start = Date.now(), tick = () => { $('clock').textContent = now && Date.now() - start > 2500 ? `${Math.floor((Date.now() - start) / 1000)} s${far}` : ''; };
  far = '';
  tick();
  if (now) clock = setInterval(tick, 1000);
  for (const each of ['run', 'check', 'grade']) $(each).setAttribute('aria-disabled', now);
  $('stop').disabled = !now;
  $('work').classList.toggle('working', now);
}

for (const what of ['run', 'check', 'grade']) $(what).onclick = () => act(what);
$('stop').onclick = async () => {
  say('Stopping …');
  await engine.stop();
  if ([document.body, $('stop')].includes(document.activeElement)) $('run').focus(); // Stop is disabled and cannot keep it
};
$('again').onclick = () => {
  editor.replace(at.start);
  if (at === OWN) own.draw($('launch'), editor.text, launch = structuredClone(own.EXAMPLE.launch), changed);
  say('This is the starting code. Ctrl+Z in the editor brings yours back.');
};
$('share').onclick = async () => {
  const link = `${location.href.split('#')[0]}#${at.number}&code=${await packed({ source: editor.text, ...(at === OWN && { launch }) })}`;
  try {
    await navigator.clipboard.writeText(link);
    say('The link is copied. It carries your kernel, and nothing is stored elsewhere.');
  } catch {
    $('results').replaceChildren(element('label', {}, 'The link, which carries your kernel', element('input', { value: link, readOnly: true, id: 'link' })));
    $('link').select();
    say('Copy the link below. It carries your kernel.');
  }
};
const KEYS = { 'Enter': 'run', 'shift Enter': 'check' };
addEventListener('keydown', event => {
  const control = event.ctrlKey || event.metaKey;
  const what = event.altKey && !control && event.key === 'Enter' ? 'grade' : control && event.key === '.' ? 'stop' : control && !event.altKey && KEYS[`${event.shiftKey ? 'shift ' : ''}${event.key}`];
  if (!what || !at) return;
  event.preventDefault();
  event.stopPropagation();
  what === 'stop' ? working && $('stop').click() : act(what);
}, true);
addEventListener('line', ({ detail }) => editor.goTo(detail));
addEventListener('hashchange', route);
addEventListener('pagehide', save);
$('launch').onsubmit = event => { event.preventDefault(); act('run'); };

if (navigator.deviceMemory < 2) notice(`This device reports ${navigator.deviceMemory} GB of memory. The engine needs about ${MEMORY} MB of it, and may not start.`, 'Try it', () => {});
if ('serviceWorker' in navigator) register().catch(() => {}); // without one, the page needs the network at each visit
$('share').hidden = !('CompressionStream' in window);
fetch('../search.html', { method: 'HEAD' }).then(({ ok }) => ok && document.querySelector('.home').after(element('a', { className: 'find', href: '../search.html' }, 'Search'))).catch(() => {}); // not every site has it
await route();
