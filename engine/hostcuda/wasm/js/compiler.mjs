// Compiles kernels: Pyodide runs the engine's Python, which calls clang and lld. The same in a worker and in node.

const decoder = new TextDecoder();

/** Python's environment: its memory is stored with it (build.mjs), and loaded with it (service.mjs). */
export const ENVIRONMENT = { HOME: '/home/pyodide', HOSTCUDA_CACHE_DIR: '/cache' };

/** The files of a folder of Pyodide's file system, as the compiler takes them: without a copy of their bytes. */
function tree(FS, path) {
  const files = {};
  for (const [name, node] of Object.entries(FS.lookupPath(path).node.contents)) {
    const { contents, usedBytes } = node;
    files[name] = FS.isDir(node.mode) ? tree(FS, `${path}/${name}`)
      : new Uint8Array(contents?.buffer ?? [], contents?.byteOffset ?? 0, usedBytes ?? 0);
  }
  return files;
}

/** Put files at an absolute path into a tree, beside what is there. */
function mount(root, path, files) {
  let at = root;
  for (const name of path.split('/').filter(Boolean)) at = at[name] ??= {};
  Object.assign(at, files);
}

/** What a command writes: it comes word by word. */
class Text {
  bytes = new Uint8Array(1 << 16);
  size = 0;

  add(piece) {
    if (!piece) return; // the end
    if (this.size + piece.length > this.bytes.length) {
      const wider = new Uint8Array(2 * (this.size + piece.length));
      wider.set(this.bytes);
      this.bytes = wider;
    }
    this.bytes.set(piece, this.size);
    this.size += piece.length;
  }

  toString() { return decoder.decode(this.bytes.subarray(0, this.size)); }
}

/** Each run of clang has a memory of its own. A large allocation, of which nothing is used, makes browsers free the earlier ones. */
function collect() {
  try { new ArrayBuffer(2 ** 33); } catch {} // more than there is
}

export class Compiler {
  /** With the engine's Python and what was compiled for it, two zip files. */
  static of(pyodide, python, cache) {
    pyodide.unpackArchive(python, 'zip', { extractDir: '/lab' });
    pyodide.FS.mkdirTree('/cache');
    if (cache) pyodide.unpackArchive(cache, 'zip', { extractDir: '/cache' });
    pyodide.FS.chmod('/cache', 0o700); // else the engine does not trust it
    pyodide.runPython('import sys; "/lab" in sys.path or sys.path.insert(0, "/lab")');
    return new Compiler(pyodide);
  }

  /** `runLLVM` is set later: Python starts while clang is loaded. */
  constructor(pyodide) {
    Object.assign(this, { pyodide, runLLVM: null, known: {} });
    pyodide.pyimport('hostcuda.wasm.boot').connect((command, folder, instead) => this.clang(command, folder, instead));
    this.python = pyodide.pyimport('hostcuda.wasm.page');
  }

  /** What page.py answers; and the module's bytes, `wasm`, if there is no `error`. */
  compile(asked) {
    const answer = JSON.parse(this.python.compile(JSON.stringify(asked)));
    return answer.error ? answer : { ...answer, wasm: this.pyodide.FS.readFile('/product.wasm') };
  }

  /** What the compiler warns of in a source that compiles: `warnings`, its text, and `messages`. */
  warn(asked) { return JSON.parse(this.python.warn(JSON.stringify(asked))); }

  /** The record of a launch of a module: what `compile` answered, `asked`, and the `kernels` of kernel.mjs's answer. */
  read(text, { places, declared, asked: { source } }, kernels) {
    const offsets = Object.fromEntries(kernels.map(({ name, parameters }) => [name, parameters.map(([, , offset]) => offset)]));
    return JSON.parse(this.python.read(text, JSON.stringify({ places, declared, source, offsets })));
  }

  /** The findings of launches, given their records: one for all accesses with the same error in the same line. */
  findings(records) { return JSON.parse(this.python.list_findings(JSON.stringify(records.map(({ findings }) => ({ findings }))))); }

  /**
   * Run clang or lld in a folder of Pyodide's file system, with other folders in place of some.
   * @returns {[number, string, string]} status, output, messages
   */
  clang(command, folder, instead) {
    const { FS } = this.pyodide, files = folder === '/' ? {} : tree(FS, folder);
    for (const word of command) {
      const path = word.replace(/^-I/, '');
      if (!path.startsWith('/') || /^\/(usr|dev)\//.test(path)) continue;
      const { exists, object } = FS.analyzePath(path), isFolder = exists && FS.isDir(object.mode);
      const place = isFolder ? path : path.slice(0, path.lastIndexOf('/'));
      mount(files, place, this.tree(instead[place] ?? place));
    }
    const out = new Text(), err = new Text();
    try {
      const after = this.runLLVM(command, files, { stdout: bytes => out.add(bytes), stderr: bytes => err.add(bytes), decodeASCII: false, synchronously: true });
      for (const name of command.filter((_, i) => ['-o', '-MF'].includes(command[i - 1]))) {
        let file = after;
        for (const part of name.split('/').filter(Boolean)) file = file?.[part];
        if (file) FS.writeFile(name.startsWith('/') ? name : `${folder}/${name}`, file);
      }
      return [0, `${out}`, `${err}`];
    } catch (error) {
      return [1, `${out}`, `${err}` || String(error)];
    } finally {
      collect();
    }
  }

  /** The files of a folder; those that do not change are read once. */
  tree(path) {
    if (!/^\/(lab\/|cache\/macros)/.test(path)) return tree(this.pyodide.FS, path);
    return this.known[path] ??= tree(this.pyodide.FS, path);
  }
}
