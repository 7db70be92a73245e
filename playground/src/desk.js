// A desk: an editor with a kernel, buttons that let the engine run, check or grade it, and what it answered.
import { Editor } from './editor.js';
import * as engine from './lab.js';
import { digest, keep, packed, read } from './keep.js';
import * as own from './launch.js';
import * as show from './show.js';

const { element } = show;
const RUN = { what: 'run', words: 'Run', says: ['Compiling …', 'Running …'] };
const CHECK = { what: 'check', words: 'Count and check', says: ['Compiling …', 'Counting and checking …'] };
const GRADE = { what: 'grade', words: 'Grade', says: ['Grading: hidden shapes, then the goals …'], key: 'Alt Enter' };
const COMPARE = { what: 'check', words: 'Check', says: ['Compiling …', 'Checking …'] };
const SANITIZE = { what: 'sanitize', words: 'Sanitize', says: ['Compiling …', 'Looking for races and bad addresses …'] };
// What can be done with a kernel, by its kind: the first has the key Ctrl+Enter, the second Ctrl+Shift+Enter.
const ACTIONS = { own: [RUN, CHECK], exercise: [RUN, CHECK, GRADE], rung: [COMPARE, SANITIZE] };
const METHODS = { 'exercise run': 'runExercise', 'exercise check': 'checkExercise', 'rung check': 'checkRung', 'rung sanitize': 'sanitizeRung' };
const NARROW = '(max-width: 1000px)'; // a screen that has the results below the editor
let desks = 0;

export class Desk {
  /**
   * @param {object} task      `kind`: own, exercise or rung; `name`: the exercise's number, or the rung with its options;
   *   `label` of the editor; `start`: the source to begin with; `key`: under which this browser keeps what one writes. Of a
   *   cell `magic`, its first line, and `part`, whether it has only some of the kernel's functions. Of a kernel of one's own
   *   `launch`: how it is launched at first
   * @param {object} [options]  `answered()`: called after an answer; `link`: what a link to its kernel begins with, and `about`, what it says of it; `outputs(what)`: the outputs of a cell that the answer takes the place of
   */
  constructor(task, options = {}) {
    Object.assign(this, { task, options, example: task.launch ?? own.EXAMPLE.launch, launch: null, saving: 0, working: false });
    const { kind, key, start, label } = task, kept = read(key), before = read(`${key} before`), keys = `keys-${++desks}`;
    const place = element('div', { className: 'editor' });
    this.editor = new Editor(place, () => this.edited(), task.magic ? 1 : 0);
    this.buttons = ACTIONS[kind].map(({ what, words, key: own }, i) => {
      const pressed = own ?? ['Ctrl Enter', 'Ctrl Shift Enter'][i];
      const button = element('button', { type: 'button', className: i ? '' : 'first', onclick: () => this.act(what) }, words, ' ', element('kbd', {}, pressed));
      button.setAttribute('aria-keyshortcuts', pressed.replace('Ctrl', 'Control').replaceAll(' ', '+'));
      return button;
    });
    this.stopButton = element('button', { type: 'button', className: 'stop', disabled: true, onclick: () => this.stop() }, 'Stop ', element('kbd', {}, 'Ctrl .'));
    this.stopButton.setAttribute('aria-keyshortcuts', 'Control+.');
    this.clock = element('span', { className: 'clock', ariaHidden: 'true' });
    this.status = element('p', { className: 'status', role: 'status' });
    this.results = element('section', { className: 'results', ariaLabel: 'Result' });
    this.noticed = element('p', { className: 'notice', hidden: true });
    this.form = element('form', { className: 'launch', hidden: kind !== 'own', onsubmit: event => { event.preventDefault(); this.act('run'); } });
    this.root = element('div', { className: 'work' },
      this.noticed, task.magic && element('pre', { className: 'magic' }, task.magic), place,
      element('div', { className: 'under' },
        element('p', { className: 'keys', id: keys }, element('kbd', {}, 'Tab'), ' indents. To leave the editor with it, press ', element('kbd', {}, 'Esc'), ' first.'),
        element('button', { type: 'button', className: 'quiet', onclick: () => this.again() }, 'Start again'),
        element('button', { type: 'button', className: 'quiet', hidden: !('CompressionStream' in window), onclick: () => this.share() }, 'Copy a link')),
      this.form, element('div', { className: 'buttons', role: 'toolbar', ariaLabel: 'Kernel' }, ...this.buttons, this.stopButton, this.clock),
      element('div', { className: 'load' }), this.status, this.results);
    this.listen(this.root);
    this.editor.open(kept?.source ?? start, label, keys);
    if (kind === 'own') this.draw(structuredClone(kept?.launch ?? this.example));
    if (before) this.notice('This kernel came with a link.', 'Back to mine', () => {
      keep(key, before);
      keep(`${key} before`, null);
      this.editor.open(before.source, label, keys);
      if (kind === 'own') this.draw(structuredClone(before.launch));
    });
  }

  /** Do what buttons in results ask for. */
  listen(place) {
    place.addEventListener('line', ({ detail }) => this.editor.goTo(detail));
    place.addEventListener('act', ({ detail }) => this.act(detail));
  }

  /** End what runs, and go. */
  close() {
    this.save();
    this.stop();
    this.root.remove();
  }

  say(text) { this.status.textContent = text; }

  notice(words, action, then) {
    this.noticed.replaceChildren(words, ' ', element('button', { type: 'button', onclick: () => { this.noticed.hidden = true; then(); } }, action));
    this.noticed.hidden = false;
  }

  draw(launch = this.launch) { own.draw(this.form, this.editor.text, this.launch = launch, () => this.changed()); }

  // What one writes is kept ----------------------------------------------------------------------------------------------

  edited() {
    this.changed();
    if (this.launch) this.draw();
  }

  changed() {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), 300);
  }

  save() {
    if (!this.saving) return;
    clearTimeout(this.saving);
    this.saving = 0;
    const text = this.editor.text, plain = text === this.task.start && !this.launch;
    if (!keep(this.task.key, plain ? null : this.content)) this.say('This browser keeps nothing: copy your kernel before you close the page.');
  }

  get content() { return { source: this.editor.text, ...(this.launch && { launch: this.launch }) }; }

  again() {
    this.editor.replace(this.task.start);
    if (this.launch) this.draw(structuredClone(this.example));
    this.say('This is the starting code. Ctrl+Z in the editor brings yours back.');
  }

  async share() {
    const { kind, name, part, magic } = this.task, { link = new URL('embed.html#', import.meta.url).href, about = { kind, name, part, magic } } = this.options;
    const address = `${link}code=${await packed({ ...about, ...this.content })}`;
    try {
      await navigator.clipboard.writeText(address);
      this.say('The link is copied. It carries your kernel, and nothing is stored elsewhere.');
    } catch {
      const field = element('input', { value: address, readOnly: true });
      this.results.replaceChildren(element('label', {}, 'The link, which carries your kernel', field));
      field.select();
      this.say('Copy the link below. It carries your kernel.');
    }
  }

  // What the buttons do --------------------------------------------------------------------------------------------------

  /** What the engine compiles: with the cell's first line, so that its lines have the numbers of a notebook. */
  get source() { return `${this.task.magic ? `// ${this.task.magic}\n` : ''}${this.editor.text}`; }

  get request() {
    const { kind, name, part } = this.task;
    return { source: this.source, ...(kind !== 'own' && { [kind]: name, part }) };
  }

  /** Load the engine, and let it compile the kernel meanwhile: the first compilation takes longest. Not for who saves data. */
  prepare() { return navigator.connection?.saveData ? null : engine.ask({ for: this }, 'prepare', { ...this.request, grade: Boolean(this.task.magic) }).catch(() => {}); }

  async act(what) {
    if (this.working) return;
    const { task, source } = this, clicked = performance.now();
    const action = ACTIONS[task.kind].find(each => each.what === what);
    if (!action) return;
    this.results.replaceChildren();
    this.editor.mark([]);
    try {
      const { shapes, ...request } = { ...(task.kind === 'own' ? own.request(source, this.launch) : this.request), first: show.SHOWN };
      this.busy(true);
      this.say('The engine is loading first …');
      this.begun = () => this.say(action.says[0]);
      const come = news => (news.part === 'running' ? action.says[1] && this.say(action.says[1]) : news.part === 'first' ? this.say(`Right on the first ${news.done} shapes. The others follow …`) : this.follow(news));
      const ask = more => engine.ask(this, METHODS[`${task.kind} ${what}`] ?? what, { ...request, ...more }, come);
      await engine.load();
      this.say(engine.isTaken(this) ? 'Another kernel comes first …' : action.says[0]);
      const result = what === 'grade' ? await this.grade(source, ask) : await ask();
      this.answer(what, result, shapes, performance.now() - clicked);
    } catch (error) {
      this.say(error.name === 'Stopped' ? 'Stopped.' : error.message);
    } finally {
      this.busy(false);
    }
  }

  /** Grade an attempt; a failed one unlocks a hint as `lab.grade` does it: once, and not if it is told otherwise what to do. */
  async grade(source, ask) {
    const { name } = this.task, [failed, hinted] = ['failed', 'hinted'].map(kind => read(`${name} ${kind}`) ?? []), mine = await digest(source);
    const known = hinted.includes(mine), again = known || failed.some(each => each !== mine);
    const result = await ask({ hint: again ? hinted.length + !known : 0 });
    if (result.passed) keep('met', { ...read('met'), [name]: new Date().toISOString().slice(0, 10) });
    else if (!/starting code|refused/.test(result.verdict) && !failed.includes(mine)) keep(`${name} failed`, [...failed, mine]);
    if (/(^|\n)Hint \d/.test(result.advice) && !known) keep(`${name} hinted`, [...hinted, mine]);
    return result;
  }

  answer(what, result, shapes, waited) {
    const marks = (result.messages ?? []).filter(each => each.kind !== 'note').map(each => ({ ...each, severity: each.kind.includes('error') ? 'error' : 'warning', message: each.text }));
    for (const { kind, message, line, other } of show.grouped(result.findings)) {
      marks.push({ line, severity: 'error', message: `${kind}: ${message}` });
      if (other?.line && other.line !== line) marks.push({ line: other.line, severity: 'error', message: `${kind}, with line ${line}` });
    }
    this.editor.mark(marks);
    const { kind, name } = this.task, outputs = this.options.outputs?.(what);
    (outputs?.take() ?? this.results).replaceChildren(...(what === 'grade' ? show.graded(result) : kind === 'rung' ? show.checked(result) : show.ran(result, what === 'check', shapes)));
    this.say(what === 'grade' ? `${name}: ${result.verdict}.` : kind === 'rung' ? show.verdict(result, what, waited) : show.sentence(result, what === 'check', waited));
    if (outputs) this.status.append(' ', element('a', { href: `#${outputs.id}` }, 'The result is below'), ', in place of the stored output.');
    this.options.answered?.();
    if (!outputs && matchMedia(NARROW).matches) this.status.scrollIntoView();
  }

  /** How far the work has come: modules and cases of a grade, shapes of a check, blocks of a launch. */
  follow({ part, done, total }) {
    if (part === 'compile') this.far = `, compiling ${done} of ${total}`;
    if (part === 'shapes') this.far = `, shape ${done + 1} of ${total}`;
    if (part === 'cases') this.far = `, case ${done} of ${total}`;
    if (part === 'blocks') this.far = `${this.far.replace(/: \d.*/, '')}: ${Math.min(99, Math.floor(100 * done / total))} % of the blocks`;
  }

  busy(now) {
    this.working = now;
    this.far = '';
    clearInterval(this.ticking);
    const start = Date.now(), tick = () => { this.clock.textContent = now && Date.now() - start > 2500 ? `${Math.floor((Date.now() - start) / 1000)} s${this.far}` : ''; };
    tick();
    if (now) this.ticking = setInterval(tick, 1000);
    for (const each of this.buttons) each.setAttribute('aria-disabled', now);
    this.stopButton.disabled = !now;
    this.root.classList.toggle('working', now);
  }

  async stop() {
    if (!this.working) return;
    this.say('Stopping …');
    await engine.stop(this);
    if ([document.body, this.stopButton].includes(document.activeElement)) this.buttons[0].focus(); // Stop is disabled and cannot keep it
  }

  /** Do what a pressed key means here. */
  key(event) {
    const control = event.ctrlKey || event.metaKey, pressed = event.key === 'Enter';
    const place = event.altKey && !control && pressed ? 2 : control && !event.altKey && pressed ? Number(event.shiftKey) : -1;
    const action = ACTIONS[this.task.kind][place], stops = control && event.key === '.';
    if (!action && !stops) return;
    event.preventDefault();
    event.stopPropagation();
    stops ? this.stop() : this.act(action.what);
  }
}
