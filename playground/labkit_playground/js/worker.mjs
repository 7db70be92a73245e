// The playground's worker: the engine's, the lab's exercises, and the check of a rung.
import { ARRAYS, Service, serve, summary } from './engine/service.mjs';
import { isWrong, runs } from './reference.mjs';

const RUN_S = 20; // of a case, until its kernel counts as endless
const TOOLS = 'profile,memcheck,racecheck,initcheck,synccheck';
const SANITIZER = 'memcheck, racecheck, initcheck, synccheck';
const FIRST = 'one past a tile'; // the shape whose module is checked first, with all others that it fits
const UNSET = /uninitialized|array bounds/; // warnings of a kernel that may be right by luck

class LabService extends Service {
  async load() {
    await super.load();
    this.later = {};
    const { pyodide } = this.compiler;
    this.judging = pyodide.pyimport('labkit_playground.judging');
    this.rungs = pyodide.pyimport('labkit_playground.rungs');
    this.judging.load(await (await this.file('exercises.json')).text());
  }

  file(name) { return fetch(new URL(name, this.base)); }

  /** Load the data of an exercise, once, or those of all rungs. */
  async need(exercise) {
    await this.init();
    return this.later[exercise ?? ''] ??= exercise ? this.needExercise(exercise) : this.file('later/rungs.json').then(file => file.text()).then(text => this.rungs.load(text));
  }

  async needExercise(exercise) {
    const [cases, arrays] = await Promise.all([this.file(`later/${exercise}.json`), this.file(`later/${exercise}.bin`)]);
    const bytes = new Uint8Array(await arrays.arrayBuffer());
    this.judging.add(exercise, await cases.text(), bytes);
    return bytes;
  }

  /** Run a job as the engine does, and say that it runs now: until then it is compiled. */
  execute(...job) {
    this.progress({ part: 'running' });
    return super.execute(...job);
  }

  async exercises() {
    await this.init();
    return JSON.parse(this.judging.exercises());
  }

  /** The job of a case for the worker of the kernels, in a module that was compiled for it. */
  job({ buffers, runs, launches, constant }, tools, bytes) {
    const arrays = written => Object.fromEntries(Object.entries(written).map(([name, { at, bytes: count }]) => [name, bytes.slice(at, at + count)]));
    return { tools, buffers, runs: runs.map(run => ({
      write: arrays(run.write), variables: constant && run.constant ? arrays({ [constant]: run.constant }) : {},
      launches, read: run.outputs.map(output => output.name),
    })) };
  }

  /** The cases of an attempt, and the bytes of their arrays. */
  async plan(exercise, source) {
    const bytes = await this.need(exercise), plan = JSON.parse(this.judging.plan(exercise, source));
    if (plan.refused) throw new Error(plan.refused);
    return [plan.cases, bytes];
  }

  /** Compile what the first request for a kernel needs, so that its answer comes sooner. */
  async prepare({ exercise, rung, grade, ...given }) {
    if (!exercise && !rung) return super.prepare(given);
    const { source, refused } = await this.whole({ exercise, rung, ...given });
    if (refused) return;
    if (rung) return void await this.compile({ ...this.shapes(rung, source)[0].compile, check: false });
    const [cases] = await this.plan(exercise, source), asked = cases.findLast(each => each.counted);
    if (grade) await this.compile({ ...cases[0].compile, check: true });
    else await super.prepare(asked.compile);
  }

  /** A cell's kernel: all of its source, and for a cell with a part of it where its lines are. */
  async whole({ exercise, rung, source, part }) {
    await this.need(exercise);
    if (!part) return { source };
    if (exercise) await this.need();
    return JSON.parse(this.rungs.merge(source, exercise ?? '', rung ?? ''));
  }

  runExercise(request) { return this.onExercise(request, false); }
  checkExercise(request) { return this.onExercise(request, true); }

  /** Run an attempt on the case that counts, once, as `run` and `check` do. */
  async onExercise({ first = Infinity, ...request }, check) {
    const { exercise } = request, { source, refused, ...place } = await this.whole(request);
    if (refused) throw new Error(refused);
    const [cases, bytes] = await this.plan(exercise, source), asked = cases.findLast(each => each.counted), [run] = asked.runs;
    const array = ({ at, bytes: count }) => bytes.subarray(at, at + count);
    const inputs = Object.fromEntries(Object.entries(asked.buffers).map(([name, count]) => [name, { type: 'uint8', length: count }]));
    for (const [name, written] of Object.entries(run.write)) inputs[name] = array(written).slice();
    if (asked.constant) inputs[asked.constant] = array(run.constant).slice();
    const result = await this.perform({ ...asked.compile, launch: asked.launches, inputs }, check), outputs = {};
    for (const { name, type } of run.outputs)
      if (result.outputs[name]) {
        const filled = new ARRAYS[type](result.outputs[name].buffer);
        outputs[name] = first < Infinity ? { ...summary(filled, array(run.write[name]), first), half: type === 'float16' } : filled;
      }
    return located({ ...result, outputs, case: asked.name }, place);
  }

  async grade({ hint = 0, ...request }) {
    const start = performance.now(), { exercise } = request, { source, refused: why, ...place } = await this.whole(request);
    const { refused = why, events, arrays, ...about } = why ? {} : await this.attempt({ exercise, source });
    if (refused) return { exercise, verdict: 'refused', passed: false, lines: [], advice: refused, hints: 0, text: refused, messages: [], findings: [], ...about };
    const wrote = this.compiler.pyodide.toPy(arrays);
    const grade = JSON.parse(this.judging.grade(exercise, source, JSON.stringify(events), wrote, hint));
    wrote.destroy();
    about.times.total = performance.now() - start;
    return located({ ...grade, ...about }, place);
  }

  /** For tests: `attempt`, with arrays in base64. */
  async traced(request) {
    const { arrays, ...rest } = await this.attempt(request), text = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
    return { ...rest, arrays: arrays.map(runs => runs.map(run => Object.fromEntries(Object.entries(run).map(([name, bytes]) => [name, text(bytes)])))) };
  }

  /** What the grader's child process does (labkit/exercises/grader.py): `events`, and `arrays` of each case and run. */
  async attempt({ exercise, source }) {
    const bytes = await this.need(exercise);
    const start = performance.now(), times = { compile: 0, fibers: 0, launch: 0 }, events = [], built = [];
    const plan = JSON.parse(this.judging.plan(exercise, source)), cases = plan.cases ?? [], arrays = cases.map(() => []);
    const about = { messages: [], findings: [], times, memory: 0 };
    if (plan.refused) return { refused: plan.refused, ...about };
    for (const [i, { compile }] of cases.entries()) {
      this.progress({ part: 'compile', done: i + 1, total: cases.length });
      const module = await this.compile({ ...compile, check: true });
      about.messages = module.messages;
      times.compile = performance.now() - start;
      if (module.error) return { events: [{ mark: 'compile', text: module.said }], arrays, ...about };
      built.push(module);
    }
    const { warnings, messages } = this.warnings(built.at(-1));
    about.messages = messages;
    events.push({ mark: 'warnings', text: warnings, filled: true });
    for (const [i, asked] of cases.entries()) {
      this.progress({ part: 'cases', done: i + 1, total: cases.length });
      events.push({ mark: 'case', case: asked.name });
      const answer = await this.execute(built[i], this.job(asked, TOOLS, bytes), RUN_S, built.slice(i));
      if (!answer) return { events: [...events, { mark: 'endless', case: asked.name }], arrays, ...about };
      arrays[i] = answer.outputs;
      about.memory = Math.max(about.memory, answer.memory);
      times.launch += answer.ms;
      times.fibers = Math.max(times.fibers, built[i].fibers);
      const records = answer.records.flat().map(text => this.compiler.read(text, built[i], answer.kernels));
      events.push(...records);
      about.findings.push(...this.compiler.findings(records));
      if (answer.fault) return { events: [...events, { mark: 'failed', text: `cuMemcpyDtoH failed: ${answer.fault}`, fault: true }], arrays, ...about };
      events.push({ mark: 'ran', case: asked.name });
      if (about.findings.length) break;
    }
    return { events: [...events, { mark: 'done' }], arrays, ...about };
  }

  /** The shapes of a rung for a source, those first that take the module of `FIRST`; the last one is the sanitizer's. */
  shapes(rung, source) {
    const { shapes, refused, ...facts } = JSON.parse(this.rungs.plan(rung, source));
    if (refused) throw new Error(refused);
    const all = shapes.map((shape, seed) => ({ ...facts, ...shape, seed })), small = all.pop();
    const options = shape => `${shape.compile.options}`, sets = [...new Set([all.find(({ name }) => name === FIRST) ?? all[0], ...all].map(options))];
    return [...sets.flatMap(set => all.filter(shape => options(shape) === set)), small];
  }

  /** What `labkit.check` says of a kernel in place of a rung; `progress` has the shapes that were right, too. */
  async checkRung(request) {
    const { source, refused, ...place } = await this.whole(request), times = { compile: 0, fibers: 0, launch: 0 };
    const result = { ok: false, text: refused ?? '', messages: [], findings: [], counts: [], totals: [], times };
    if (refused) return result;
    const shapes = this.shapes(request.rung, source).slice(0, -1), [{ label }] = shapes;
    let first = `${shapes[0].compile.options}`, begun;
    for (const [i, shape] of shapes.entries()) {
      this.progress({ part: 'shapes', done: i, total: shapes.length });
      if (first && `${shape.compile.options}` !== first) {
        this.progress({ part: 'first', done: i });
        first = '';
      }
      const module = await this.timed(times, () => this.compile({ ...shape.compile, check: false }));
      if (module.error) return located({ ...result, messages: module.messages }, place);
      begun ??= module;
      const wrong = await this.wrong(module, shape, times);
      if (!wrong) continue;
      const { messages } = await this.timed(times, () => this.warnings(begun)), { findings } = await this.sanitized(shape, times);
      return located({ ...result, messages, findings, text: `${wrong}${findings.length ? '' : NOTHING}` }, place);
    }
    const { messages } = await this.timed(times, () => this.warnings(begun)); // after the first verdict, which need not wait for it
    const unset = located({ messages }, place).messages.find(({ text }) => UNSET.test(text));
    const warned = unset ? `, but the compiler warns: line ${unset.line}: ${unset.text}` : '';
    return located({ ...result, messages, ok: true, text: `PASS ${label}: ${shapes.length} shapes, exact on integers, within rounding on reals; races were not looked for: lab.sanitize${warned}` }, place);
  }

  /** What work of the compiler gives; its time goes to `times`. */
  async timed(times, work) {
    const start = performance.now(), made = await work();
    times.compile += performance.now() - start;
    return made;
  }

  /** Why the outputs of a kernel are wrong on a shape, or how it fails; "" if it is right. */
  async wrong(module, { label, launches, buffers, constant, storage, size, on, seed, ...shape }, times) {
    const inputs = runs({ size, ...shape }, { storage, ...shape }, seed), [batch] = size, where = `${on} = ${batch}`;
    const job = { tools: '', buffers, runs: inputs.map(({ write, constant: mask }) => ({ write, variables: constant ? { [constant]: mask } : {}, launches, read: ['y'] })) };
    const answer = await this.execute(module, job, RUN_S);
    if (!answer) return `${label} does not end ${where}: after ${RUN_S} s it was stopped`;
    times.launch += answer.ms;
    times.fibers = Math.max(times.fibers, module.fibers);
    for (const [i, { y }] of answer.outputs.entries()) {
      if (!isWrong(y, inputs[i], storage)) continue;
      const { about, x, k, expected, allowed } = inputs[i], given = this.compiler.pyodide.toPy({ y, x, k, expected, allowed });
      const text = this.rungs.explain(`${label} is wrong ${where} (${about})`, storage, this.compiler.pyodide.toPy(size), given);
      given.destroy();
      return `${text}${answer.fault ? `\nAnd it faults: ${answer.fault}` : ''}`;
    }
    return answer.fault && `${label} faults ${where}: ${answer.fault}`;
  }

  /** What the sanitizer finds on a shape. */
  async sanitized(shape, times) {
    const module = await this.timed(times, () => this.compile({ ...shape.compile, check: true })), { buffers, launches, constant } = shape;
    if (module.error) return { messages: module.messages, findings: [], records: [], fault: '' };
    const [{ write: { y, ...inputs }, constant: mask }] = runs(shape, shape, shape.seed); // y is as allocated: a kernel has to set it
    const job = { tools: TOOLS, buffers, runs: [{ write: inputs, variables: constant ? { [constant]: mask } : {}, launches, read: ['y'] }] };
    const answer = await this.execute(module, job, RUN_S);
    times.fibers = Math.max(times.fibers, module.fibers);
    times.launch += answer?.ms ?? 0;
    const records = (answer?.records ?? []).flat().map(text => this.compiler.read(text, module, answer.kernels));
    return { messages: module.messages, records, findings: this.compiler.findings(records), fault: answer ? answer.fault : `${shape.label} does not end ${shape.on} = ${shape.size[0]}` };
  }

  /** What `labkit.sanitize` says of a kernel in place of a rung, on one shape. */
  async sanitizeRung(request) {
    const { source, refused, ...place } = await this.whole(request), times = { compile: 0, fibers: 0, launch: 0 };
    if (refused) return { ok: false, text: refused, messages: [], findings: [], counts: [], totals: [], times };
    const shape = this.shapes(request.rung, source).at(-1), { records, ...found } = await this.sanitized(shape, times);
    const counts = records.flatMap((record, launch) => record.sites.map(site => ({ launch, kernel: record.kernel, ...site })));
    const ok = !found.fault && !found.findings.length && records.length > 0;
    return located({ ok, ...found, counts, totals: records.map(({ totals }) => totals), times,
      text: ok ? `${SANITIZER}: nothing found in ${records.length} launch${records.length === 1 ? '' : 'es'}` : '' }, place);
  }
}

const NOTHING = '\nThe sanitizer finds no invalid address, race or uninitialized memory on this shape, so the kernel computes something else than the convolution.';

/** A result about a whole kernel as one about the cell that has a part of it: with the cell's lines, 0 for others. */
function located(result, { lines, brace = 0 } = {}) {
  if (!lines) return result;
  const at = line => lines[line] ?? 0, site = each => ({ ...each, line: at(each.line) });
  const elsewhere = 'in the part of the kernel that is not in the cell';
  return { ...result,
    messages: result.messages?.map(each => (at(each.line) ? site(each) : brace ? { ...each, line: brace, column: 0, text: 'no } closes the { of this line' } : { ...each, line: 0, text: `${each.text} (${elsewhere})` })),
    findings: result.findings?.map(each => ({ ...site(each), other: each.other && site(each.other) })),
    counts: result.counts?.map(site),
    lines: result.lines?.map(each => ({ ...each, text: each.text.replace(/\bline (\d+)/g, (text, line) => (at(line) ? `line ${at(line)}` : `line ${line} of the whole kernel`)) })),
  };
}

serve(new LabService(new URL('./engine/', import.meta.url).href));
