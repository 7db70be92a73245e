// Inputs of a convolution and what it should give, as labkit.measure.check has them: integers, real numbers, large integers.
import { half, number } from './engine/half.mjs';

const POISON = { float32: [Uint32Array, 0x7fc05eed], float16: [Uint16Array, 0x7e5d] }; // a NaN that no operation gives
const ROUND = { float32: Math.fround, float16: value => number(half(value)) };
const product = list => list.reduce((a, b) => a * b);

/** Numbers that look random, and are the same each time: a function that returns one in [0, 1). */
function generator(seed) {
  let state = seed;
  return () => {
    state = state + 0x6d2b79f5 | 0;
    let mixed = Math.imul(state ^ state >>> 15, 1 | state);
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed;
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32;
  };
}

/** The outputs of a convolution of x [B,C,H,W] with k [M,C,K,K], in double precision. */
export function convolve(x, k, [B, C, H, W, M, K]) {
  const Ho = H - K + 1, Wo = W - K + 1, y = new Float64Array(B * M * Ho * Wo);
  for (let b = 0, out = 0; b < B; b++) for (let m = 0; m < M; m++, out += Ho * Wo)
    for (let c = 0; c < C; c++) for (let p = 0; p < K; p++) for (let q = 0; q < K; q++) {
      const weight = k[((m * C + c) * K + p) * K + q], from = ((b * C + c) * H + p) * W + q;
      for (let h = 0; h < Ho; h++) for (let w = 0; w < Wo; w++) y[out + h * Wo + w] += x[from + h * W + w] * weight;
    }
  return y;
}

const absolute = array => array.map(Math.abs);
const draw = (count, value) => Float64Array.from({ length: count }, value);

/** Nonzero integers, so small that every sum is exact in any order. */
function integers(size, random, exact, counts, terms) {
  const upTo = largest => () => (1 + Math.floor(random() * largest)) * (random() < 0.5 ? -1 : 1);
  for (const largest of [8, 4, 2, 1]) {
    const [x, k] = counts.map(count => draw(count, upTo(largest)));
    if (convolve(absolute(x), absolute(k), size).every(sum => sum <= exact)) return [x, k];
  }
  return [draw(counts[0], upTo(1)), draw(counts[1], () => (random() < exact / (2 * terms) ? upTo(1)() : 0))];
}

/** Integers as large as exact sums permit, mostly of one sign. */
function large(size, random, exact, counts, terms, [a, b]) {
  if (Math.min(a, b) < 2) return integers(size, random, exact, counts, terms);
  const [ofX, ofK] = random() < 0.5 ? [a, b] : [b, a], upTo = largest => 1 + Math.floor(random() * largest);
  return [draw(counts[0], () => upTo(ofX)), draw(counts[1], () => upTo(ofK) * (random() < 0.25 ? -1 : 1))];
}

function reals(random, counts, round) {
  const value = () => 0.25 + 0.75 * random();
  return [draw(counts[0], () => round(value())), draw(counts[1], () => round(value() * (random() < 1 / 3 ? -1 : 1)))];
}

/** The bytes of numbers as an array of a type. */
function bytes(values, type) {
  const array = type === 'float16' ? Uint16Array.from(values, half) : Float32Array.from(values);
  return new Uint8Array(array.buffer);
}

/**
 * The three runs of a shape: `about`, what they are called; `x`, `k`, `expected` and `allowed` as doubles; `write` and
 * `constant`, bytes for the device.
 */
export function runs({ size, bound: [slope, least], largest }, { storage, mask, exact }, seed) {
  const [B, C, H, W, M, K] = size, terms = C * K * K, counts = [B * C * H * W, M * terms], round = ROUND[storage], random = generator(seed);
  const [Words, poison] = POISON[storage], outputs = product([B, M, H - K + 1, W - K + 1]);
  const inputs = {
    'integers, which must be exact': integers(size, random, exact, counts, terms),
    'real numbers, within rounding': reals(random, counts, round),
    'large integers, whose sums must be exact': large(size, random, exact, counts, terms, largest),
  };
  return Object.entries(inputs).map(([about, [x, k]]) => {
    const real = about.startsWith('real'), exactly = convolve(x, k, size);
    const allowed = real ? convolve(absolute(x), absolute(k), size).map(scale => slope * scale + least) : new Float64Array(1);
    return { about, x, k, allowed, expected: real ? exactly : exactly.map(round), constant: bytes(k, mask),
      write: { x: bytes(x, storage), k: bytes(k, storage), y: new Uint8Array(new Words(outputs).fill(poison).buffer) } };
  });
}

/** Whether an output has an error that is too large, or is no number. */
export function isWrong(output, { expected, allowed }, storage) {
  const values = storage === 'float16' ? Array.from(new Uint16Array(output.buffer), number) : new Float32Array(output.buffer);
  return !expected.every((wanted, i) => Math.abs(values[i] - wanted) <= allowed[allowed.length > 1 ? i : 0]);
}
