// The playground's worker: the engine's, and the lab's exercises.
import { ARRAYS, Service, serve } from './engine/service.mjs';

const RUN_S = 20; // of a case, until its kernel counts as endless
const TOOLS = 'profile,memcheck,racecheck,initcheck,synccheck';

class LabService extends Service {
  async load() {
    await super.load();
    const file = name => fetch(new URL(name, this.base)).then(response => response.arrayBuffer()).then(buffer => new Uint8Array(buffer));
    const [stored, arrays] = await Promise.all([file('exercises.json'), file('exercises.bin')]);
    this.arrays = arrays;
    this.judging = this.compiler.pyodide.pyimport('labkit.playground.judging');
    this.judging.load(new TextDecoder().decode(stored), arrays);
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

  runExercise(request) { return this.onExercise(request, false); }
  checkExercise(request) { return this.onExercise(request, true); }

  /** Run an attempt on the case that counts, once, as `run` and `check` do. */
  async onExercise({ exercise, source }, check) {
    const cases = await this.plan(exercise, source), asked = cases.findLast(each => each.counted), [run] = asked.runs;
    const inputs = Object.fromEntries(Object.entries(asked.buffers).map(([name, bytes]) => [name, { type: 'uint8', length: bytes }]));
    for (const [name, array] of Object.entries(run.write)) inputs[name] = this.array(array).slice();
    if (asked.constant) inputs[asked.constant] = this.array(run.constant).slice();
    const result = await this.perform({ ...asked.compile, launch: asked.launches, inputs }, check), outputs = {};
    for (const { name, type } of run.outputs)
      if (result.outputs[name]) outputs[name] = new ARRAYS[type](result.outputs[name].buffer);
    return { ...result, outputs, case: asked.name };
  }

  async grade({ exercise, source, hint = 1 }) {
    const start = performance.now(), times = { compile: 0, fibers: 0, launch: 0 }, events = [], arrays = [];
    let messages = [], findings = [], memory = 0;
    const plan = JSON.parse((await this.init(), this.judging.plan(exercise, source)));
    if (plan.refused) return { exercise, verdict: 'refused', passed: false, lines: [], advice: plan.refused, hints: 0, text: plan.refused, messages, findings, times, memory };
    const built = [];
    for (const [i, { compile }] of plan.cases.entries()) {
      const module = await this.compile({ ...compile, check: true, warn: i === plan.cases.length - 1 });
      messages = module.messages;
      if (module.error) {
        events.push({ mark: 'compile', text: module.said });
        break;
      }
      built.push(module);
    }
    times.compile = performance.now() - start;
    if (built.length === plan.cases.length) {
      events.push({ mark: 'warnings', text: built.at(-1).warnings, filled: true });
      let state = 'done';
      for (const [i, asked] of plan.cases.entries()) {
        events.push({ mark: 'case', case: asked.name });
        const answer = await this.execute(built[i], this.job(asked, TOOLS), RUN_S);
        if (!answer) {
          events.push({ mark: 'endless', case: asked.name });
          state = '';
          break;
        }
        arrays[i] = answer.outputs;
        memory = Math.max(memory, answer.memory);
        times.launch += answer.ms;
        times.fibers = Math.max(times.fibers, built[i].fibers);
        const records = answer.records.flat().map(text => this.compiler.read(text, built[i].places));
        events.push(...records);
        findings = findings.concat(records.flatMap(record => record.findings));
        if (answer.fault) {
          events.push({ mark: 'failed', text: `cuMemcpyDtoH failed: ${answer.fault}`, fault: true });
          state = '';
          break;
        }
        events.push({ mark: 'ran', case: asked.name });
        if (findings.length) break;
      }
      if (state) events.push({ mark: state });
    }
    const { pyodide } = this.compiler, wrote = pyodide.toPy(plan.cases.map((_, i) => arrays[i] ?? []));
    const grade = JSON.parse(this.judging.grade(exercise, source, JSON.stringify(events), wrote, hint, ''));
    wrote.destroy();
    times.total = performance.now() - start;
    return { ...grade, messages, findings, times, memory };
  }
}

serve(new LabService(new URL('./engine/', import.meta.url).href));
