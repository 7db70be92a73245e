// Stands in for the engine in the tests of the page: answers by words in the source, without a compiler.
const SIZE = 27_000_000;
const pause = time => new Promise(done => setTimeout(done, time));

export class Stopped extends Error {
  name = 'Stopped';
}

export class Lab {
  async init(progress) {
    if (globalThis.REFUSES) throw new RangeError('WebAssembly.Memory(): could not allocate memory');
    for (const part of [1, 2, 3]) progress({ part: 'engine', done: part * SIZE / 3, total: SIZE });
    if (globalThis.SLOW) await pause(globalThis.SLOW);
    await (await fetch(new URL('./engine/large.bin', import.meta.url))).arrayBuffer();
  }

  async exercises() { return []; }

  async prepare() {}

  work(source) {
    const lines = source.split('\n'), at = word => lines.findIndex(line => line.includes(word)) + 1;
    return new Promise((done, failed) => {
      this.left = failed;
      if (!at('while (true)')) pause(20).then(() => done(at));
    });
  }

  runExercise(request, progress) { return this.run(request, progress); }

  checkExercise(request, progress) { return this.check(request, progress); }

  async checkRung({ source }, progress) {
    const at = await this.work(source), wrong = at('wrong'), answer = { ok: !wrong, messages: [], findings: [], counts: [], totals: [], times: {} };
    progress({ part: 'first', done: 4 });
    if (at('oops')) return { ...answer, ok: false, text: '', messages: [{ kind: 'error', line: at('oops'), column: 1, text: "use of undeclared identifier 'oops'" }] };
    return { ...answer, text: wrong ? '04 tiling, own source is wrong on one past a tile' : 'PASS 04 tiling, own source: 15 shapes' };
  }

  async sanitizeRung(request, progress) {
    const { findings } = await this.check(request, progress);
    return { ok: !findings.length, text: findings.length ? '' : 'racecheck: nothing found', messages: [], findings, counts: [], totals: [], times: {} };
  }

  async run({ source, exercise, inputs = {}, launch, first }, progress) {
    if (source.includes('long')) {
      progress({ part: 'blocks', done: 3, total: 8 });
      await pause(4000);
    }
    progress({ part: 'running' });
    const at = await this.work(source), result = { ok: true, messages: [], fault: '', outputs: {}, printed: '', modes: [], times: { total: 412 }, findings: [], counts: [], totals: [], memory: 0 };
    if (at('oops')) return { ...result, ok: false, messages: [{ kind: 'error', file: 'kernel.cu', line: at('oops'), column: lineOf(source, 'oops'), text: "use of undeclared identifier 'oops'" }] };
    if (at('unused')) result.messages.push({ kind: 'warning', file: 'kernel.cu', line: at('unused'), column: 1, text: "unused variable 'unused'" });
    if (at('printf')) result.printed = Array.from({ length: 5000 }, (_, i) => `thread ${i}\n`).join('');
    if (at('overrun')) result.fault = 'a write just past the end of an allocation of 4 bytes: is a guard such as `if (i < n)` missing? A check names the line';
    for (const [name, input] of Object.entries(inputs)) result.outputs[name] = this.output(input, first);
    if (exercise) result.case = 'layer 1';
    if (launch) result.asked = launch;
    return result;
  }

  output({ type, length, fill }, first) {
    const half = type === 'float16', bits = Array.from({ length: Math.min(length, first) }, (_, i) => (half ? 0x3e00 : type === 'int64' ? 2n ** 62n : i + 1));
    return { length, values: bits, changed: bits.map(() => !fill), same: Boolean(fill), unset: fill ? 0 : Math.max(0, length - 250) };
  }

  async check(request, progress) {
    const at = await this.work(request.source), result = await this.run(request, progress);
    const racy = !request.source.includes('// fixed') && at('__syncthreads');
    return {
      ...result,
      findings: racy && result.ok ? [{ tool: 'racecheck', kind: 'race', message: 'this thread loads 4 bytes that another thread stores, and nothing orders them', kernel: 'conv', line: racy + 5, block: [0, 0, 0], thread: [3, 1, 0], other: { line: racy - 1, thread: [2, 0, 0], op: 'st' }, count: 1210 }] : [],
      counts: result.ok ? [
        { launch: 0, kernel: 'conv', line: 32, space: 'global', op: 'ld', size: 4, requests: 3600, sectors: 12320, conflicts: 0, bytes: 460800 },
        { launch: 0, kernel: 'conv', line: 31, space: 'shared', op: 'st', size: 4, requests: 3600, wavefronts: 4100, conflicts: 500, bytes: 460800 },
        { launch: 0, kernel: 'conv', line: 38, space: 'shared', op: 'ld', size: 4, requests: 39200, wavefronts: 78400, conflicts: 39200, bytes: 5017600 },
        { launch: 0, kernel: 'conv', line: 38, space: 'constant', op: 'ld', size: 4, requests: 39200, wavefronts: 39200, conflicts: 0, bytes: 5017600 },
      ] : [],
      totals: result.ok ? [{ global_load_requests: 3600, global_load_sectors: 12320, shared_load_wavefronts: 78400, barriers: 800, atomic_requests: 0, busiest_warp: 27 }] : [],
    };
  }

  async grade({ source, hint }) {
    await this.work(source);
    const solved = source.includes('TILE + 32'), wrong = source.includes('wrong');
    if (wrong) return { verdict: 'not right yet', passed: false, messages: [], findings: [], lines: [
      { ok: false, text: 'right\non layer 1', kind: '' }, ...['load requests', 'barriers per warp'].map(name => ({ ok: null, text: `${name}: not counted, because of the above; wanted at most 1`, kind: '' })),
    ], advice: `Which thread is it?${hint ? `\nHint ${hint} of 3: this is hint number ${hint}.` : ''}` };
    return {
      verdict: solved ? 'goal met' : 'goal missed', passed: solved, messages: [], findings: [],
      lines: [
        { ok: true, text: 'clean under memcheck, racecheck, initcheck, synccheck', kind: '' },
        { ok: true, text: 'right on 3 hidden shapes and layer 1', kind: '' },
        { ok: true, text: 'changed lines: 1, wanted at most 1', kind: 'changed lines' },
        { ok: solved, text: `wavefronts per shared load, layer 1: ${solved ? '1' : '2'}, wanted at most 1.05`, kind: '' },
      ],
      solution: '// how the lab solves it',
      advice: solved ? 'The lab\'s own: lab.solution("04a"). More.' : `Hint ${hint || 1} of 3: this is hint number ${hint || 1}.`,
    };
  }

  async stop() { this.left?.(new Stopped('stopped')); }
}

function lineOf(source, word) {
  return (source.split('\n').find(line => line.includes(word)) ?? '').indexOf(word) + 1;
}
