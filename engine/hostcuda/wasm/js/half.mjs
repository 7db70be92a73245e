// Halves: JavaScript has no number of 16 bits in every browser.

/** The bits of the half that is nearest to a number, of two the one whose last bit is 0. */
export function half(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer), sign = bits >>> 16 & 0x8000, size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size || 1e-9)), -14), steps = size / 2 ** (exponent - 10), down = Math.floor(steps);
  const rounded = down + (steps - down > 0.5 || (steps - down === 0.5 && down % 2)); // 1024 to 2048 if it is normal
  return sign | (rounded + (exponent + 14) * 1024);
}

/** The number that a half's bits are. */
export function number(bits) {
  const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}
