// Compiles what the engine itself needs, once per site: node build.mjs PYTHON.zip CACHE.zip
import fs from 'node:fs';
import { loadPyodide } from 'pyodide';
import { runLLVM } from '@yowasp/clang';
import { Compiler } from './compiler.mjs';

const [python, cache] = process.argv.slice(2);
try {
  await runLLVM(null, {}, { fetchProgress() {} });
  const pyodide = await loadPyodide({ env: { HOME: '/home/pyodide', HOSTCUDA_CACHE_DIR: '/cache' } });
  const compiler = Compiler.of(pyodide, runLLVM, new Uint8Array(fs.readFileSync(python)));
  compiler.python.warm();
  pyodide.runPython('import shutil; shutil.make_archive("/tmp/cache", "zip", "/cache")');
  fs.writeFileSync(cache, pyodide.FS.readFile('/tmp/cache.zip'));
} catch (error) {
  console.error(String(error.message ?? error).slice(-4000)); // node would print the line of the source, a megabyte
  process.exit(1);
}
