// A kernel cell of a page as a desk: live.js opens it.
import { Desk } from './desk.js';
import { keepPage } from './lab.js';
import { element } from './show.js';

let styled;

/** Load the style of desks, once. */
function style() {
  const href = new URL('desk.css', import.meta.url).href;
  return styled ??= new Promise((done, failed) => document.head.append(element('link', { rel: 'stylesheet', href, onload: done, onerror: failed })));
}

/** The outputs of a cell, which a result takes the place of, or which come from the kernel as it was stored. */
class Outputs {
  constructor(id) {
    const cell = document.getElementById(id);
    this.id = id;
    this.place = cell.querySelector('.outputs') ?? cell.appendChild(element('div', { className: 'outputs' }));
    this.stored = [...this.place.childNodes];
    this.section = element('section', { className: 'results', ariaLabel: 'Result' });
    this.note = element('p', { className: 'lab-note stale' }, 'Of the kernel as it was stored, not of yours.');
  }

  /** The element for a result, in place of what was stored. */
  take() {
    this.place.replaceChildren(this.section);
    return this.section;
  }

  /** Say whether what is stored here comes from another kernel. */
  mark(stale) { stale ? this.place.prepend(this.note) : this.note.remove(); }

  restore() { this.place.replaceChildren(...this.stored); }
}

const outputsOf = ids => (ids ?? '').split(' ').filter(Boolean).map(id => new Outputs(id));

/** Put a desk into a cell; `place` has its button. */
export async function open(cell, place) {
  await style();
  keepPage();
  const { live: kind, name, part, verdict, sanitized, stale } = cell.dataset, code = cell.querySelector('.code');
  const [magic, ...lines] = code.textContent.trimEnd().split('\n'), start = `${lines.join('\n')}\n`;
  const [[judged], [clean], old] = [verdict, sanitized, stale].map(outputsOf), places = { check: kind === 'rung' && judged, grade: judged, sanitize: clean };
  const key = kind === 'exercise' && !part ? name : kind === 'own' ? `own ${location.pathname} ${cell.id}` : `${kind} ${name}`;
  const desk = new Desk({ kind, name, part: Boolean(part), magic, key, start, label: `Kernel of the cell ${magic}` }, {
    outputs: what => places[what] || null,
    answered: () => { for (const each of old) each.mark(desk.editor.text !== start); },
  });
  for (const each of [judged, clean]) if (each) desk.listen(each.section);
  const close = element('button', { type: 'button', className: 'quiet', onclick: () => {
    desk.close();
    code.hidden = place.hidden = false;
    for (const each of [judged, clean, ...old]) each?.restore();
    place.querySelector('button').focus();
  } }, 'As stored');
  desk.root.querySelector('.under').append(close);
  code.hidden = place.hidden = true;
  code.after(desk.root);
  desk.root.addEventListener('keydown', event => desk.key(event), true);
  addEventListener('pagehide', () => desk.save());
  desk.prepare();
  desk.editor.view.focus();
}
