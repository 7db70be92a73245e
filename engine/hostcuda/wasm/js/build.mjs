// Prepares what a page would do at each start, once per site: node build.mjs PYTHON.zip compile CACHE.zip, or start
// MEMORY.bin MODULE…
import fs from 'node:fs';
import { loadPyodide } from 'pyodide';
import { runLLVM } from '@yowasp/clang';
import { Compiler, ENVIRONMENT } from './compiler.mjs';

const [python, task, out, ...modules] = process.argv.slice(2), archive = new Uint8Array(fs.readFileSync(python));
const options = { env: ENVIRONMENT };

/** Compile what the engine itself needs, into a zip file. */
async function compile() {
  await runLLVM(null, {}, { fetchProgress() {} });
  const pyodide = await loadPyodide(options), compiler = Object.assign(Compiler.of(pyodide, archive), { runLLVM });
  compiler.python.warm();
  pyodide.runPython('import shutil; shutil.make_archive("/tmp/cache", "zip", "/cache")');
  return pyodide.FS.readFile('/tmp/cache.zip');
}

/** Python's memory after its start, with modules imported. */
async function start() {
  const pyodide = await loadPyodide({ ...options, _makeSnapshot: true }), { HEAP32, __PyRuntime, __PyEM_EMSCRIPTEN_TRAMPOLINE_OFFSET } = pyodide._module;
  pyodide.unpackArchive(archive, 'zip', { extractDir: '/lab' });
  pyodide.runPython(`import sys; sys.path.insert(0, "/lab"); ${modules.map(name => `import ${name}; `).join('')}import gc; gc.collect()`);
  // A function of WebAssembly that Python adds at its start, where there is garbage collection: not every browser has it.
  HEAP32[(__PyRuntime + HEAP32[__PyEM_EMSCRIPTEN_TRAMPOLINE_OFFSET / 4]) / 4] = 0;
  return pyodide.makeMemorySnapshot();
}

try {
  fs.writeFileSync(out, await { compile, start }[task]());
} catch (error) {
  console.error(String(error.message ?? error).slice(-4000)); // node would print the line of the source, a megabyte
  process.exit(1);
}
