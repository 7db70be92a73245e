// The engine for a page: see docs/browser.md.
const PATIENCE_MS = 700; // of stop, for a worker that is compiling

export class Stopped extends Error {
  constructor() { super('stopped'); this.name = 'Stopped'; }
}

export class Engine {
  /** @param {URL|string} worker  its file */
  constructor(worker = new URL('worker.mjs', import.meta.url)) {
    Object.assign(this, { file: worker, waiting: new Map(), next: 0 });
    this.start();
  }

  start() {
    this.worker = new Worker(this.file, { type: 'module' });
    this.worker.onmessage = ({ data: { id, result, error, name, progress } }) => {
      const asked = this.waiting.get(id);
      if (!asked) return;
      if (progress) return asked.progress?.(progress);
      this.waiting.delete(id);
      if (error === undefined) asked.resolve(result);
      else asked.reject(name === 'Stopped' ? new Stopped() : new Error(error));
    };
    this.worker.onerror = event => this.rejectAll(new Error(event.message));
  }

  rejectAll(error) {
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  /** Ask the worker: a promise of the result. */
  ask(method, argument, progress) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, progress, method });
      this.worker.postMessage({ id, method, argument });
    });
  }

  init(progress) { return this.ask('init', undefined, progress); }
  run(request, progress) { return this.ask('run', request, progress); }
  check(request, progress) { return this.ask('check', request, progress); }

  /** End what runs. A kernel ends at once; if the worker is compiling and does not hear, it begins anew. */
  async stop() {
    const asked = [...this.waiting.keys()];
    if (!asked.length) return;
    this.worker.postMessage({ method: 'stop' });
    for (let waited = 0; waited < PATIENCE_MS && asked.some(id => this.waiting.has(id)); waited += 20)
      await new Promise(resolve => setTimeout(resolve, 20));
    if (!asked.some(id => this.waiting.has(id))) return;
    this.worker.terminate();
    this.rejectAll(new Stopped());
    this.start();
    await this.init();
  }
}
