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
export const run = request => (request.exercise ? lab.runExercise(request) : lab.run(request));
export const check = request => (request.exercise ? lab.checkExercise(request) : lab.check(request));
export const grade = request => lab.grade(request);
export const stop = () => lab?.stop();
