// A worker that runs kernels and nothing else: to stop an endless one, it is ended.
import { Instance, NeedsFibers } from './instance.mjs';

/**
 * Run a job in a module of its own.
 * @param {object} job  `module`; `tools` of check mode; `buffers`, bytes or a size by name; `runs`, each with `write`, bytes
 *   by name of a buffer, `variables`, bytes by name, `launches`, and `read`, names of buffers
 * @returns {object} `outputs`, bytes by name for each run that has ended; `fault`; `records` of each run; `printed`; …
 */
async function execute({ module, tools, buffers, runs }) {
  const instance = await Instance.make(module, tools), at = {}, outputs = [], records = [];
  count(instance, runs.flatMap(run => run.launches));
  for (const [name, content] of Object.entries(buffers)) at[name] = instance.allocate(content);
  const start = performance.now();
  let fault = '';
  for (const { write = {}, variables = {}, launches, read } of runs) {
    for (const [name, bytes] of Object.entries(write)) instance.write(at[name], bytes);
    for (const [name, bytes] of Object.entries(variables)) {
      if (instance.variable(name) === undefined) fault = `the source has no variable ${name}`;
      else instance.write(instance.variable(name), bytes);
    }
    for (const launch of fault ? [] : launches) {
      fault = instance.launch(launch, launch.arguments.map(value => typeof value === 'string' ? at[value] : value));
      if (fault) break;
    }
    records.push(instance.records());
    if (fault) break;
    outputs.push(Object.fromEntries(read.map(name => [name, instance.read(at[name], buffers[name].byteLength ?? buffers[name])])));
  }
  return { outputs, fault, records, printed: instance.printed(), kernels: instance.kernels, memory: instance.memory(), ms: performance.now() - start };
}

const EVERY_MS = 250;

/** Tell how many blocks of all launches have been begun. */
function count(instance, launches) {
  const total = launches.reduce((sum, { grid }) => sum + grid.reduce((a, b) => a * b), 0);
  let done = 0, told = performance.now();
  instance.entered = () => {
    done++;
    if (performance.now() - told < EVERY_MS) return;
    told = performance.now();
    postMessage({ progress: { part: 'blocks', done, total } });
  };
}

onmessage = async ({ data }) => {
  try {
    const answer = await execute(data);
    postMessage(answer, answer.outputs.flatMap(Object.values).map(bytes => bytes.buffer));
  } catch (error) {
    postMessage(error instanceof NeedsFibers ? { needsFibers: true } : { error: String(error.message ?? error) });
  }
};
