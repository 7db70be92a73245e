// The playground's engine: the lab's exercises, too. engine/docs/browser.md describes it.
import { Engine, Stopped } from './engine/engine.mjs';

export { Stopped };

export class Lab extends Engine {
  constructor() { super(new URL('worker.mjs', import.meta.url)); }

  exercises() { return this.ask('exercises'); }
  runExercise(request, progress) { return this.ask('runExercise', request, progress); }
  checkExercise(request, progress) { return this.ask('checkExercise', request, progress); }
  grade(request, progress) { return this.ask('grade', request, progress); }
  checkRung(request, progress) { return this.ask('checkRung', request, progress); }
  sanitizeRung(request, progress) { return this.ask('sanitizeRung', request, progress); }
  prepare(request) { return this.ask('prepare', request); }
}
