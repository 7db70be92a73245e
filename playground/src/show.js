// Results as elements of the page. A line of the source is a button that leads to it.

import { number } from '../../engine/hostcuda/wasm/js/half.mjs';

/** An element with properties and children; children that are false or null are left out. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) key === 'role' ? made.setAttribute(key, value) : made[key] = value;
  made.append(...children.filter(each => each !== false && each != null && each !== ''));
  return made;
}

const shown = value => (Number.isInteger(value) ? value : Number(value.toPrecision(3))).toLocaleString('en');
const many = (count, noun) => `${shown(count)} ${noun}${count === 1 ? '' : 's'}`;

/** A text in which "line 12" is a button. */
function linked(text) {
  return String(text).split(/(\blines? \d+)/).map((part, i) => (i % 2 ? line(Number(part.match(/\d+/)[0]), part) : part));
}

/** Tell the desk of a pressed button what is wanted of it. */
const tell = (event, what, detail) => event.target.dispatchEvent(new CustomEvent(what, { detail, bubbles: true }));

function line(number, text = String(number)) {
  return element('button', { type: 'button', className: 'line', ariaLabel: /line/.test(text) ? text : `line ${text}`, onclick: event => tell(event, 'line', number) }, text);
}

/** Code in single backticks, and lines as buttons. */
const prose = text => String(text).split(/(`[^`]+`)/).flatMap((part, i) => (i % 2 ? [element('code', {}, part.slice(1, -1))] : linked(part)));

function table(caption, heads, rows, note = '') {
  const figure = value => typeof value === 'number';
  const cell = value => element('td', { className: figure(value) ? 'figure' : '' }, figure(value) ? shown(value) : value ?? '');
  return element('div', { className: 'html', tabIndex: 0, role: 'group', ariaLabel: 'Table' }, element('table', {},
    element('caption', {}, caption, note && element('span', { className: 'lab-note' }, note)),
    element('thead', {}, element('tr', {}, ...heads.map((head, i) => element('th', { scope: 'col', className: figure(rows[0]?.[i]) ? 'figure' : '' }, head)))),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...row.map(cell))))));
}

/** What the compiler said, as a list; nothing if it said nothing. */
function messages(list) {
  const told = list.filter(each => each.kind !== 'note');
  return told.length > 0 && element('ul', { className: 'found' }, ...told.map(({ kind, line: at, text }) =>
    element('li', { className: kind.includes('error') ? 'bad' : 'warn' }, element('b', {}, kind), ' ', at > 0 && line(at, `line ${at}`), ' ', ...prose(text))));
}

const place = list => `(${list.join(', ')})`;

/** Findings of one kind at the same lines as one, the first of them; `count` is that of all. */
export function grouped(list) {
  const groups = new Map();
  for (const each of list) {
    const key = [each.kind, each.kernel, each.line, each.other?.line].join(), first = groups.get(key);
    if (first) first.count += each.count;
    else groups.set(key, { ...each });
  }
  return [...groups.values()];
}

function findings(list) {
  return list.length > 0 && element('ul', { className: 'found' }, ...grouped(list).map(({ kind, message, line: at, kernel, block, thread, other, count }) =>
    element('li', { className: 'bad' }, element('b', {}, kind), ' ', at ? line(at, `line ${at}`) : `in ${kernel}`,
      other?.line ? ' and ' : '', other?.line && line(other.line, `line ${other.line}`),
      element('p', {}, ...prose(message.replace(/[^.!?]$/, '$&.')), Array.isArray(thread) && ` Thread ${place(thread)} of block ${place(block)}${other?.thread ? `, and before it thread ${place(other.thread)}` : ''}.`,
        count > 1 && ` ${count.toLocaleString('en')} accesses like this.`))));
}

const OPERATIONS = { ld: 'load', st: 'store', atom: 'atomic', red: 'atomic' };

/** Accesses by line, over all launches. */
function lines(counts, until) {
  const rows = new Map();
  for (const each of counts.filter(({ space }) => space !== 'local')) {
    const key = [each.kernel, each.line, each.space, each.op, each.size].join();
    const row = rows.get(key) ?? rows.set(key, { ...each, requests: 0, units: 0, conflicts: 0 }).get(key);
    row.requests += each.requests;
    row.units += (each.space === 'global' ? each.sectors : each.wavefronts) ?? 0;
    row.conflicts += each.conflicts ?? 0;
  }
  const sorted = [...rows.values()].sort((a, b) => a.line - b.line || a.space.localeCompare(b.space));
  const unit = ({ space }) => (space === 'global' ? 'sector' : space === 'constant' ? 'turn' : 'wavefront');
  return sorted.length > 0 && table(`Memory accesses by line${until}`, ['line', 'access', 'requests', 'per request'], sorted.map(row => [
    row.line ? line(row.line) : '', `${row.space} ${OPERATIONS[row.op] ?? row.op}, ${many(row.size, 'byte')}`, row.requests,
    row.requests ? many(row.units / row.requests, unit(row)) : '',
  ]), 'A request is one access of a warp. Fewer sectors or wavefronts per request are better.');
}

// The goals' words for counters.
const WORDS = {
  busiest_warp: 'memory instructions of the busiest warp', shared_conflicts: 'bank conflicts',
  reduction_requests: 'atomic requests without a result (reductions)', atomic_requests: 'atomic requests with a result',
};

function totals(launches, counts, until) {
  const names = [...new Set(launches.flatMap(Object.keys))], used = names.filter(name => launches.some(each => each[name]));
  const kernel = i => counts.find(({ launch }) => launch === i)?.kernel ?? `launch ${i + 1}`;
  return used.length > 0 && table(`Counters${until}`, ['counter', ...(launches.length > 1 ? launches.map((_, i) => kernel(i)) : ['count'])],
    used.map(name => [WORDS[name] ?? name.replaceAll('_', ' '), ...launches.map(each => each[name] ?? 0)]));
}

export const SHOWN = 64; // numbers of an array
const PRINTED = 20_000; // letters

/** An array after the launch, of which the engine has sent the first numbers; those that differ from before are marked. */
function array(name, { values, length, changed, unset, half }, { width = 1, half: isHalf = half } = {}) {
  const first = Array.from(values, (bits, i) => {
    const value = isHalf ? number(bits) : bits, text = typeof value === 'bigint' || Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
    const open = width > 1 && i % width === 0 ? '(' : '', close = width > 1 && i % width === width - 1 ? ')' : '';
    return [i ? ', ' : '', open, changed[i] ? element('mark', {}, text) : text, close];
  });
  return element('div', { className: 'array' }, element('h2', {}, element('code', {}, name), ` ${many(length / width, 'element')}`),
    element('p', {}, ...first.flat(), length > values.length ? ', …' : ''),
    unset > 0 && element('p', { className: 'lab-note' }, `${many(unset, 'element')} ${unset === 1 ? 'is' : 'are'} NaN, as is memory that no thread has stored to.`));
}

/** What kernels printed; of much, the beginning. */
function printed(text) {
  const shown = text.length > PRINTED ? text.slice(0, text.lastIndexOf('\n', PRINTED) + 1 || PRINTED) : text, left = text.slice(shown.length).split('\n').length - 1;
  return element('div', { className: 'printed' }, element('h2', {}, 'Printed'), element('pre', { tabIndex: 0, role: 'group', ariaLabel: 'Printed' }, shown),
    left > 0 && element('p', { className: 'lab-note' }, `${many(left, 'further line')} not shown here.`));
}

const CHECK = / A check names the line\.?$/;

/** A button for a check once more, where it helps. */
const checking = () => [element('button', { type: 'button', className: 'line', onclick: event => tell(event, 'act', 'check') }, 'Count and check'), ' names the line.'];

/** The elements for a result of `run`, or of `check`; `shapes` says how to read the arrays of a launch, by name. */
export function ran(result, checked, shapes = {}) {
  const outputs = Object.entries(result.outputs ?? {}), same = ([, { same }]) => same;
  const unchanged = outputs.filter(same).map(([name]) => name);
  const until = result.fault ? ', up to the error' : '';
  const failed = result.messages.some(each => each.kind.includes('error'));
  return [
    messages(result.messages),
    result.fault && !result.findings.length && element('p', { className: 'failure' }, ...prose(checked ? result.fault : result.fault.replace(CHECK, ' ')), ...(!checked && CHECK.test(result.fault) ? checking() : [])),
    findings(result.findings),
    result.printed && printed(result.printed),
    lines(result.counts, until),
    totals(result.totals, result.counts, until),
    ...(failed || checked ? [] : [
      ...outputs.filter(each => !same(each)).map(([name, values]) => array(name, values, shapes[name])),
      unchanged.length > 0 && element('p', { className: 'lab-note' }, `Unchanged: ${unchanged.join(', ')}.`),
    ]),
  ].filter(Boolean);
}

/** The elements for a result of `checkRung` or `sanitizeRung`. */
export function checked(result) {
  return [result.text && element('pre', { className: 'stream', tabIndex: 0, role: 'group', ariaLabel: 'Verdict' }, result.text), ...ran(result, true)].filter(Boolean);
}

/** A sentence on such a result, for the status line. */
export function verdict({ ok, text, messages, findings }, what, waited) {
  const errors = messages.filter(each => each.kind.includes('error')), found = grouped(findings), seconds = `${(waited / 1000).toFixed(1)} s.`;
  if (errors.length) return `It does not compile: ${many(errors.length, 'error')}, the first in line ${errors[0].line}.`;
  const [first] = found, race = first?.line && ` The first: ${first.kind} at line ${first.line}${first.other?.line ? ` and line ${first.other.line}` : ''}.`;
  if (found.length && !text) return `${many(found.length, 'finding')}. ${seconds}${race || ''}`;
  if (ok) return `${what === 'check' ? 'Passed' : 'Nothing found'}. ${seconds}`;
  return `Not right. ${seconds}${race || ''}`;
}

/** A sentence on a result of `run` or `check`, for the status line; `waited` is the time since the click, in milliseconds. */
export function sentence(result, checked, waited) {
  const errors = result.messages.filter(each => each.kind.includes('error')), found = grouped(result.findings).length;
  const seconds = `${(waited / 1000).toFixed(1)} s, compilation included.`, on = result.case ? ` on ${result.case}` : '';
  if (errors.length) return `It does not compile: ${many(errors.length, 'error')}, the first in line ${errors[0].line}.`;
  if (found) return `It ${result.fault ? 'was stopped' : 'ran'}${on}, with ${many(found, 'finding')}. ${seconds}`;
  if (result.fault) return `The launch${on} failed.`;
  if (checked) return `It ran${on}, and nothing was found. ${seconds}`;
  return `It ran${on}, unchecked. ${seconds} Count and check looks for races and bad addresses${on ? ', and Grade says whether its results are right' : ''}.`;
}

/** Show the lab's solution at the end of the results. */
function solve(results, solution) {
  results.querySelector('.solution')?.remove();
  results.append(element('div', { className: 'printed solution' }, element('h2', {}, "The lab's solution"), element('pre', { tabIndex: 0, role: 'group', ariaLabel: "The lab's solution" }, solution)));
}

const MARKS = new Map([[true, ['✓', 'yes: ', 'good']], [false, ['✗', 'no: ', 'bad']], [null, ['–', 'not counted: ', 'open']]]);

const LATER = ': not counted, because of the above; wanted ';

/** The lines of a grade, those that were not counted as one. */
function folded(list) {
  const later = list.filter(({ text }) => text.includes(LATER));
  if (later.length < 2) return list;
  const names = later.map(({ text }) => text.split(LATER)[0]);
  return [...list.filter(each => !later.includes(each)), { ok: null, text: `${many(later.length, 'goal')} not counted, because of the above: ${names.join('; ')}` }];
}

/** The elements for a result of `grade`. */
export function graded({ lines: list, advice, solution }) {
  return [
    element('ul', { className: 'grade' }, ...folded(list).map(({ ok, text }) => {
      const [mark, words, look] = MARKS.get(ok ?? null), [head, ...rest] = text.split('\n');
      return element('li', { className: look }, element('span', { className: 'mark', ariaHidden: 'true' }, mark), element('span', { className: 'unseen' }, words),
        ...linked(head), rest.length > 0 && element('pre', {}, ...linked(rest.join('\n'))));
    })),
    advice && element('p', { className: 'advice' }, ...advice.split(/(The lab's own: lab\.solution\("\w+"\)\.|lab\.solution\("\w+"\))/).flatMap((part, i) => (i % 2
      ? [element('button', { type: 'button', className: 'line', onclick: event => solve(event.target.closest('.results'), solution) }, part.startsWith('The') ? "Show the lab's solution" : 'the solution')]
      : prose(part)))),
    advice?.includes('lab.step(') && element('p', { className: 'lab-note' }, 'lab.step is a function of the lab itself. Here, let that thread call printf, and press Run.'),
  ].filter(Boolean);
}
