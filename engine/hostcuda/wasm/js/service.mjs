// What runs in the page's worker: the compilers, and a worker of its own for the kernels (kernel.mjs).
import { Compiler, ENVIRONMENT } from './compiler.mjs';
import { half } from './half.mjs';

export const ARRAYS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, int16: Int16Array, int32: Int32Array,
                 int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array };
const TOOLS = 'profile,memcheck,racecheck,initcheck,synccheck';
const BINARYEN = 'binaryen.wasm'; // loaded when a thread has to wait for the first time
const isLater = name => name === BINARYEN || name.startsWith('later/'); // what `init` does not load
const KEPT = 16; // modules that were compiled last: a check of a rung has up to 7, and one of another kernel comes between
const three = size => (typeof size === 'number' ? [size, 1, 1] : [...size, 1, 1].slice(0, 3));
const bytesOf = array => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
const decoder = new TextDecoder();

export class Stopped extends Error {
  constructor() { super('stopped'); this.name = 'Stopped'; }
}

/** Fetch files that are stored compressed as FILE.z, and tell how much has come. `sizes` has the bytes of FILE.z and of FILE, by name. */
export function fetchCompressed(base, sizes, progress) {
  const fetched = {}, fetch = globalThis.fetch.bind(globalThis);
  const total = Object.entries(sizes).reduce((sum, [name, [size]]) => sum + (isLater(name) ? 0 : size), 0);
  return async (input, options) => {
    const url = new URL(input.url ?? input, base), name = url.href.startsWith(base) ? url.href.slice(base.length) : '';
    if (!(name in sizes)) return fetch(input, options);
    const response = await fetch(`${url}.z`, options);
    if (!response.ok) throw new Error(`${url}.z: ${response.status}`);
    const count = new TransformStream({ transform(chunk, to) {
      fetched[name] = (fetched[name] ?? 0) + chunk.byteLength;
      if (!isLater(name)) progress({ part: name, done: Object.values(fetched).reduce((a, b) => a + b, 0), total });
      to.enqueue(chunk);
    } });
    const type = name.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
    return new Response(response.body.pipeThrough(count).pipeThrough(new DecompressionStream('gzip')), { headers: { 'Content-Type': type } });
  };
}

/** The bytes of a response. `arrayBuffer()` would have them twice in memory at its end. */
async function read({ body }, size) {
  const bytes = new Uint8Array(size), reader = body.getReader();
  for (let at = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return bytes;
    bytes.set(value, at);
    at += value.length;
  }
}

/** Free the memory of an array that others still refer to: it is empty from now on. */
function empty({ buffer }) {
  if (buffer.transfer) buffer.transfer(0);
  else structuredClone(buffer, { transfer: [buffer] });
}

export class Service {
  /** @param {string} base  the address of the folder with the engine */
  constructor(base = new URL('./', import.meta.url).href) {
    Object.assign(this, { base, modules: new Map(), progress() {} });
  }

  /** Load everything, once. */
  init() { return this.loading ??= this.load(); }

  async load() {
    const at = name => new URL(name, this.base).href;
    const sizes = await (await fetch(at('sizes.json'))).json();
    globalThis.fetch = fetchCompressed(this.base, sizes, state => this.progress(state));
    const bytes = async name => read(await fetch(at(name)), sizes[name][1]);
    const start = async memory => {
      const { loadPyodide } = await import(at('pyodide/pyodide.mjs'));
      const pyodide = await loadPyodide({ indexURL: at('pyodide/'), env: ENVIRONMENT, _loadSnapshot: memory });
      empty(await memory); // Pyodide keeps the array, 31 MB
      return pyodide;
    };
    const python = Promise.all([start(bytes('memory.bin')), bytes('python.zip'), bytes('cache.zip')]).then(loaded => Compiler.of(...loaded));
    const clang = import(at('clang/bundle.js')).then(async ({ runLLVM }) => (await runLLVM(null, {}, { fetchProgress() {} }), runLLVM));
    const [compiler, runLLVM] = await Promise.all([python, clang]);
    this.compiler = Object.assign(compiler, { runLLVM });
  }

  /** Compile, if that was not done before: what page.py answers, and the `module`. */
  async compile(asked) {
    await this.init();
    const key = JSON.stringify(asked), known = this.modules.get(key);
    if (known) return known;
    const made = this.build(asked);
    this.modules.set(key, made); // at once: the same may be asked for while it is made
    if (this.modules.size > KEPT) this.modules.delete(this.modules.keys().next().value);
    if ((await made.catch(error => ({ error }))).error) this.modules.delete(key);
    return made;
  }

  async build(asked) {
    const start = performance.now(), built = this.compiler.compile(asked);
    built.asked = asked;
    if (!built.error) Object.assign(built, { bytes: built.wasm, fibers: 0, compile: performance.now() - start, module: await WebAssembly.compile(built.wasm) });
    return built;
  }

  /** The compiler's messages about a module's source, and its `warnings` as a text: a compilation of its own, for which no run waits. */
  warnings(built) { return built.error ? built : built.warned ??= this.compiler.warn(built.asked); }

  /** Make the functions of modules ones that can wait. */
  async addFibers(modules) {
    const start = performance.now(), worker = new Worker(new URL('asyncify.mjs', this.base), { type: 'module' });
    const wasm = await (this.binaryen ??= WebAssembly.compileStreaming(fetch(new URL(BINARYEN, this.base))));
    const answer = await this.ask(worker, { wasm, built: modules.map(({ bytes, pointers }) => ({ bytes, pointers })) });
    modules.forEach((built, i) => Object.assign(built, { module: answer.modules[i], fibers: performance.now() - start }));
  }

  /**
   * Run a job of kernel.mjs in a compiled module. `seconds` is the most that it may take: then the answer is null. `alike` are
   * modules of which the same threads wait, to be run next.
   */
  async execute(built, job, seconds = Infinity, alike = [built]) {
    const worker = new Worker(new URL('kernel.mjs', this.base), { type: 'module' });
    const answer = await this.ask(worker, { ...job, module: built.module }, seconds);
    if (!answer?.needsFibers) return answer;
    await this.addFibers([...new Set(alike)].filter(each => !each.fibers));
    return this.execute(built, job, seconds);
  }

  /** Let a worker do a job, and end it. The answer is null if that takes longer than `seconds`. */
  ask(worker, job, seconds = Infinity) {
    return new Promise((resolve, reject) => {
      let late;
      const end = (settle, value) => { clearTimeout(late); this.stopWorker = null; worker.terminate(); settle(value); }; // its memory is free at once
      this.stopWorker = () => end(reject, new Stopped());
      if (seconds < Infinity) late = setTimeout(() => end(resolve, null), seconds * 1000);
      worker.onmessage = ({ data }) => (data.progress ? this.progress(data.progress) : data.error ? end(reject, new Error(data.error)) : end(resolve, data));
      worker.onerror = event => end(reject, new Error(event.message));
      worker.postMessage(job);
    });
  }

  stop() { this.stopWorker?.(); }

  run(request) { return this.perform(request, false); }
  check(request) { return this.perform(request, true); }

  /** Compile what `run` will be asked for, so that the result comes sooner. */
  async prepare(request) { await this.compile(asked(request, false)); }

  async perform({ source, options, name, launch, inputs = {}, include_dirs, extern_c, first = Infinity }, check) {
    const start = performance.now();
    const result = { ok: false, messages: [], fault: '', outputs: {}, printed: '', modes: [], times: {}, memory: 0, findings: [], counts: [], totals: [] };
    const built = await this.compile(asked({ source, options, name, include_dirs, extern_c }, check));
    result.messages = this.warnings(built).messages;
    result.times.compile = performance.now() - start;
    if (!built.error) {
      const buffers = {}, variables = {}, types = {}, launches = [launch].flat();
      const passed = new Set(launches.flatMap(each => each.arguments.filter(value => typeof value === 'string')));
      for (const [input, content] of Object.entries(inputs)) {
        const isArray = ArrayBuffer.isView(content), type = types[input] = isArray ? content.constructor : ARRAYS[content.type];
        if (!type) throw new Error(`${input}: there is no type ${content.type}; there are ${Object.keys(ARRAYS).join(', ')}`);
        const array = isArray ? content : content.fill ? filled(type, content) : null;
        if (!passed.has(input) && built.variables.includes(input)) variables[input] = bytesOf(array);
        else buffers[input] = array ? bytesOf(array) : content.length * type.BYTES_PER_ELEMENT;
      }
      for (const each of passed) if (!(each in buffers)) throw new Error(`the launch passes ${each}, and there is no input of this name`);
      const shaped = launches.map(each => ({ ...each, grid: three(each.grid), block: three(each.block), arguments: each.arguments.map(value => typeof value === 'boolean' ? +value : value) }));
      const answer = await this.execute(built, { tools: check ? TOOLS : '', buffers, runs: [{ variables, launches: shaped, read: Object.keys(buffers) }] });
      Object.assign(result, { fault: answer.fault, printed: answer.printed, memory: answer.memory });
      result.modes = answer.kernels.map(each => ({ kernel: each.name, loops: each.loops, why: each.why }));
      for (const [input, bytes] of Object.entries(answer.outputs[0] ?? {})) {
        const array = new types[input](bytes.buffer);
        result.outputs[input] = first < Infinity ? summary(array, buffers[input], first) : array;
      }
      const records = answer.records.flat().map(text => this.compiler.read(text, built, answer.kernels));
      Object.assign(result, { findings: this.compiler.findings(records), counts: records.flatMap(rows), totals: records.map(each => each.totals) });
      Object.assign(result.times, { fibers: built.fibers, launch: answer.ms });
      result.ok = !answer.fault && !result.findings.length;
    }
    result.times.total = performance.now() - start;
    return result;
  }
}

/** What page.py is asked to compile for a request. */
const asked = ({ source, options = [], name = 'kernel.cu', include_dirs, extern_c = false }, check) =>
  ({ source: `#line 1 "${name}"\n${source}`, options, extern_c, include_dirs, check });

/** An array with a content that has a name. */
function filled(type, { type: name, length, fill }) {
  const made = new type(length), real = name.startsWith('float'), of = name === 'float16' ? half : made instanceof BigInt64Array || made instanceof BigUint64Array ? BigInt : Number;
  if (fill === 'ones') return made.fill(of(1));
  let state = 1;
  for (let i = 0; i < length && fill !== 'zeros'; i++) {
    state = Math.imul(state, 1664525) + 1013904223 | 0;
    const part = (state >>> 8) / (1 << 24);
    made[i] = of(fill === 'count' ? i : real ? part : Math.floor(100 * part));
  }
  return made;
}

/** Its first elements, which of them are not what they were, whether any is not, and how many hold no number. */
export function summary(array, before, first) {
  const bytes = bytesOf(array), width = array.BYTES_PER_ELEMENT, known = before.byteLength !== undefined;
  const differs = at => known && bytes[at] !== before[at];
  let same = known, unset = 0;
  for (let at = 0; same && at < bytes.length; at++) same = bytes[at] === before[at];
  for (const value of array) unset += value !== value;
  const values = array.slice(0, first);
  return { length: array.length, values, same, unset,
    changed: Array.from(values, (_, i) => Array.from({ length: width }, (_, byte) => differs(i * width + byte)).some(Boolean)) };
}

const rows = (record, launch) => record.sites.map(site => ({ launch, kernel: record.kernel, ...site }));

/** Answer the messages of a page. */
export function serve(service) {
  onmessage = async ({ data: { id, method, argument } }) => {
    if (method === 'stop') return service.stop();
    service.progress = progress => postMessage({ id, progress });
    try {
      postMessage({ id, result: await service[method](argument) });
    } catch (error) {
      postMessage({ id, error: String(error.message ?? error), name: error.name });
    }
  };
}
