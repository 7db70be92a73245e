// The playground's worker: the engine's, and the lab's exercises.
import { ARRAYS, Service, serve, summary } from './engine/service.mjs';

const RUN_S = 20; // of a case, until its kernel counts as endless
const TOOLS = 'profile,memcheck,racecheck,initcheck,synccheck';

class LabService extends Service {
  async load() {
    await super.load();
    const file = name => fetch(new URL(name, this.base)).then(response => response.arrayBuffer()).then(buffer => new Uint8Array(buffer));
    const [stored, arrays] = await Promise.all([file('exercises.json'), file('exercises.bin')]);
    this.arrays = arrays;
    this.judging = this.compiler.pyodide.pyimport('labkit_playground.judging');
    this.judging.load(new TextDecoder().decode(stored), arrays);
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

  array({ at, bytes }) { return this.arrays.subarray(at, at + bytes); }

  /** The job of a case for the worker of the kernels, in a module that was compiled for it. */
  job({ buffers, runs, launches, constant }, tools) {
    const arrays = written => Object.fromEntries(Object.entries(written).map(([name, array]) => [name, this.array(array).slice()]));
    return { tools, buffers, runs: runs.map(run => ({
      write: arrays(run.write), variables: constant && run.constant ? arrays({ [constant]: run.constant }) : {},
      launches, read: run.outputs.map(output => output.name),
    })) };
  }

  async plan(exercise, source) {
    await this.init();
    const plan = JSON.parse(this.judging.plan(exercise, source));
    if (plan.refused) throw new Error(plan.refused);
    return plan.cases;
  }

  async prepare({ exercise, source, ...own }) {
    if (!exercise) return super.prepare({ source, ...own });
    const asked = (await this.plan(exercise, source)).findLast(each => each.counted);
    await super.prepare(asked.compile);
  }

  runExercise(request) { return this.onExercise(request, false); }
  checkExercise(request) { return this.onExercise(request, true); }

  /** Run an attempt on the case that counts, once, as `run` and `check` do. */
  async onExercise({ exercise, source, first = Infinity }, check) {
    const cases = await this.plan(exercise, source), asked = cases.findLast(each => each.counted), [run] = asked.runs;
    const inputs = Object.fromEntries(Object.entries(asked.buffers).map(([name, bytes]) => [name, { type: 'uint8', length: bytes }]));
    for (const [name, array] of Object.entries(run.write)) inputs[name] = this.array(array).slice();
    if (asked.constant) inputs[asked.constant] = this.array(run.constant).slice();
    const result = await this.perform({ ...asked.compile, launch: asked.launches, inputs }, check), outputs = {};
    for (const { name, type } of run.outputs)
      if (result.outputs[name]) {
        const array = new ARRAYS[type](result.outputs[name].buffer);
        outputs[name] = first < Infinity ? { ...summary(array, this.array(run.write[name]), first), half: type === 'float16' } : array;
      }
    return { ...result, outputs, case: asked.name };
  }

  async grade({ exercise, source, hint = 0 }) {
    const start = performance.now(), { refused, events, arrays, ...about } = await this.attempt({ exercise, source });
    if (refused) return { exercise, verdict: 'refused', passed: false, lines: [], advice: refused, hints: 0, text: refused, ...about };
    const wrote = this.compiler.pyodide.toPy(arrays);
    const grade = JSON.parse(this.judging.grade(exercise, source, JSON.stringify(events), wrote, hint));
    wrote.destroy();
    about.times.total = performance.now() - start;
    return { ...grade, ...about };
  }

  /** For tests: `attempt`, with arrays in base64. */
  async traced(request) {
    const { arrays, ...rest } = await this.attempt(request), text = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
    return { ...rest, arrays: arrays.map(runs => runs.map(run => Object.fromEntries(Object.entries(run).map(([name, bytes]) => [name, text(bytes)])))) };
  }

  /** What the grader's child process does (labkit/exercises/grader.py): `events`, and `arrays` of each case and run. */
  async attempt({ exercise, source }) {
    await this.init();
    const start = performance.now(), times = { compile: 0, fibers: 0, launch: 0 }, events = [], built = [];
    const plan = JSON.parse(this.judging.plan(exercise, source)), cases = plan.cases ?? [], arrays = cases.map(() => []);
    const about = { messages: [], findings: [], times, memory: 0 };
    if (plan.refused) return { refused: plan.refused, ...about };
    for (const [i, { compile }] of cases.entries()) { // a case may be compiled like the last one, of which warnings are wanted
      this.progress({ part: 'compile', done: i + 1, total: cases.length });
      const module = await this.compile({ ...compile, check: true, warn: `${compile.options}` === `${cases.at(-1).compile.options}` });
      about.messages = module.messages;
      times.compile = performance.now() - start;
      if (module.error) return { events: [{ mark: 'compile', text: module.said }], arrays, ...about };
      built.push(module);
    }
    events.push({ mark: 'warnings', text: built.at(-1).warnings, filled: true });
    for (const [i, asked] of cases.entries()) {
      this.progress({ part: 'cases', done: i + 1, total: cases.length });
      events.push({ mark: 'case', case: asked.name });
      const answer = await this.execute(built[i], this.job(asked, TOOLS), RUN_S, built.slice(i));
      if (!answer) return { events: [...events, { mark: 'endless', case: asked.name }], arrays, ...about };
      arrays[i] = answer.outputs;
      about.memory = Math.max(about.memory, answer.memory);
      times.launch += answer.ms;
      times.fibers = Math.max(times.fibers, built[i].fibers);
      const records = answer.records.flat().map(text => this.compiler.read(text, built[i].places));
      events.push(...records);
      about.findings.push(...records.flatMap(record => record.findings));
      if (answer.fault) return { events: [...events, { mark: 'failed', text: `cuMemcpyDtoH failed: ${answer.fault}`, fault: true }], arrays, ...about };
      events.push({ mark: 'ran', case: asked.name });
      if (about.findings.length) break;
    }
    return { events: [...events, { mark: 'done' }], arrays, ...about };
  }
}

serve(new LabService(new URL('./engine/', import.meta.url).href));
