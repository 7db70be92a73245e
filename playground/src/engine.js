// The engine, as the page uses it: lab.mjs of the site, which works in a worker of its own.
let lab;

/** Load the engine; `progress(done, total)` in bytes. The promise is rejected if that fails, and may then be made again. */
export async function init(progress) {
  if (!lab) {
    const { Lab } = await import('./lab.mjs');
    lab = new Lab();
  }
  await lab.init(({ done, total }) => progress(done, total));
}

export const exercises = () => lab.exercises();
export const run = (request, progress) => (request.exercise ? lab.runExercise(request, progress) : lab.run(request, progress));
export const check = (request, progress) => (request.exercise ? lab.checkExercise(request, progress) : lab.check(request, progress));
export const grade = (request, progress) => lab.grade(request, progress);
export const prepare = request => lab.prepare(request);
export const stop = () => lab?.stop();
