// The launch of a kernel of one's own: a form for grid, block and arguments, made of the kernel's parameters.
import { element } from './show.js';

const ARRAYS = {
  'float': 'float32', 'double': 'float64', '__half': 'float16', 'half': 'float16', 'char': 'int8', 'signed char': 'int8', 'int8_t': 'int8',
  'unsigned char': 'uint8', 'uint8_t': 'uint8', 'bool': 'uint8', 'short': 'int16', 'int16_t': 'int16', 'unsigned short': 'uint16',
  'uint16_t': 'uint16', 'int': 'int32', 'int32_t': 'int32', 'unsigned': 'uint32', 'unsigned int': 'uint32', 'uint32_t': 'uint32',
};
const NUMBERS = /^(?:(?:unsigned |signed )?(?:char|short|int|long(?: long)?(?: int)?)|unsigned|bool|float|double|size_t|u?int\d+_t)$/;
const CONSTRUCTORS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
};
const FILLS = { count: '0, 1, 2, …', zeros: 'zeros', ones: 'ones', random: 'random', nothing: 'nothing yet', values: 'these values' };

export const EXAMPLE = {
  source: `__global__ void add(const float *a, const float *b, float *sum, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;    // the element of this thread
    if (i < n) sum[i] = a[i] + b[i];
}
`,
  launch: { grid: '4', block: '64', shared: '0', values: { sum: { length: '256', fill: 'nothing' }, b: { length: '256', fill: 'ones' }, n: { value: '250' } } },
};

/** The kernels of a source: `{name, parameters: [{name, type, array, number}]}`; `array` is the type of its elements. */
export function kernels(source) {
  const code = source.replace(/\/\*[^]*?\*\/|\/\/.*/g, ' ');
  return Array.from(code.matchAll(/__global__\s[^;{}()]*?(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*?)?(\w+)\s*\(([^)]*)\)/g), ([, name, list]) => ({
    name, parameters: list.split(',').map(each => each.trim()).filter(Boolean).map(parameter),
  }));
}

function parameter(text) {
  const words = text.replace(/\b(const|volatile|__restrict__|__restrict|restrict)\b/g, ' ').replace(/\[\s*\]/, ' * ');
  const name = words.match(/(\w+)\s*\*?\s*$/)?.[1] ?? '', pointer = words.includes('*');
  const type = words.replace(/\*/g, ' ').replace(new RegExp(`\\b${name}\\s*$`), ' ').replace(/\s+/g, ' ').trim();
  return { name, type: pointer ? `${type} *` : type, array: pointer && words.split('*').length === 2 ? ARRAYS[type] : undefined, number: !pointer && NUMBERS.test(type) };
}

/** The form's content for a source; `launch` is what was entered, and `change()` is called after each entry. */
export function draw(form, source, launch, change) {
  const found = kernels(source), asked = JSON.stringify([found, launch]);
  if (form.dataset.shows === asked) return;
  form.dataset.shows = asked;
  const kernel = found.find(each => each.name === launch.kernel) ?? found[0];
  const field = (label, name, hint) => {
    const input = element('input', { name, value: launch[name] ?? '1', autocomplete: 'off', inputMode: 'text' });
    input.oninput = () => { launch[name] = input.value; change(); };
    return element('label', {}, label, input, hint && element('small', {}, hint));
  };
  const several = element('select', { name: 'kernel' }, ...found.map(each => element('option', { value: each.name, selected: each === kernel }, each.name)));
  several.onchange = () => { launch.kernel = several.value; change(); draw(form, source, launch, change); };
  form.replaceChildren(
    element('fieldset', {}, element('legend', {}, 'Launch'),
      element('div', { className: 'sizes' },
        found.length > 1 && element('label', {}, 'Kernel', several),
        field('Grid', 'grid', 'blocks: x or x, y, z'), field('Block', 'block', 'threads: x or x, y, z'), field('Dynamic shared memory', 'shared', 'bytes per block')),
      kernel ? element('div', { className: 'arguments' }, ...kernel.parameters.map(each => argument(each, launch.values[each.name] ??= {}, change)))
        : element('p', {}, 'There is no kernel yet. A kernel begins with __global__ void.')));
}

function argument({ name, type, array, number }, value, change) {
  const group = (...parts) => element('div', { role: 'group', ariaLabel: `Argument ${name}` }, element('span', {}, element('code', {}, `${type} ${name}`.replace('* ', '*'))), ...parts);
  const input = (key, label, preset) => {
    const made = element('input', { name: `${name} ${key}`, value: value[key] ??= preset, autocomplete: 'off', ariaLabel: label });
    made.oninput = () => { value[key] = made.value; change(); };
    return made;
  };
  if (number) return group(input('value', 'value', '0'));
  if (!array) return group(element('em', {}, 'this page passes numbers and arrays of numbers only'));
  const fill = element('select', { ariaLabel: 'content' }, ...Object.entries(FILLS).map(([key, words]) => element('option', { value: key, selected: key === (value.fill ??= 'count') }, words)));
  const values = input('values', 'values', '1, 2, 3');
  const show = () => { values.hidden = value.fill !== 'values'; };
  fill.onchange = () => { value.fill = fill.value; show(); change(); };
  show();
  return group(input('length', 'number of elements', '256'), element('span', {}, 'elements:'), fill, values);
}

/** The request for the engine; throws an Error that says which entry is wrong. */
export function request(source, launch) {
  const found = kernels(source), kernel = found.find(each => each.name === launch.kernel) ?? found[0];
  if (!kernel) throw new Error('There is no kernel: write a function that begins with __global__ void.');
  const inputs = {}, values = kernel.parameters.map(({ name, type, array, number }) => {
    const given = launch.values[name] ?? {};
    if (number) return whole(given.value, `argument ${name}`, /float|double/.test(type));
    if (!array) throw new Error(`Argument ${name} is a ${type}, and this page passes numbers and arrays of numbers only.`);
    inputs[name] = content(array, given, name);
    return name;
  });
  const shared = whole(launch.shared, 'dynamic shared memory');
  return { source, inputs, launch: { kernel: kernel.name, grid: sizes(launch.grid, 'grid'), block: sizes(launch.block, 'block'), shared, arguments: values } };
}

function whole(text, what, fraction) {
  const value = Number(text);
  if (text === undefined || !String(text).trim() || Number.isNaN(value) || !(fraction || Number.isInteger(value)))
    throw new Error(`${what[0].toUpperCase()}${what.slice(1)}: "${text ?? ''}" is no ${fraction ? 'number' : 'integer'}.`);
  return value;
}

function sizes(text, what) {
  const list = String(text ?? '').split(/[\s,×x]+/).filter(Boolean).map(each => whole(each, what));
  if (!list.length || list.length > 3 || list.some(each => each < 1)) throw new Error(`${what[0].toUpperCase()}${what.slice(1)}: write one to three positive integers, as in 16, 16.`);
  return list;
}

function content(type, { length, fill, values }, name) {
  if (fill === 'values') return array(type, String(values).split(/[\s,]+/).filter(Boolean).map(each => whole(each, `array ${name}`, true)));
  const count = whole(length, `elements of ${name}`);
  if (count < 1 || count > 1 << 26) throw new Error(`Elements of ${name}: an array here has 1 to ${(1 << 26).toLocaleString('en')} elements.`);
  if (fill === 'nothing') return { type, length: count };
  let state = 1;
  const random = () => { state = Math.imul(state, 1664525) + 1013904223 | 0; return (state >>> 8) / (1 << 24); };
  const integers = !type.startsWith('float');
  return array(type, Array.from({ length: count }, (_, i) => fill === 'zeros' ? 0 : fill === 'ones' ? 1 : fill === 'random' ? (integers ? Math.floor(100 * random()) : random()) : i));
}

const array = (type, values) => CONSTRUCTORS[type].from(type === 'float16' ? values.map(half) : values);

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

/** The inputs of a request as they are shown beside the outputs: by name, what an array held before the launch. */
export function before(inputs = {}) {
  return Object.fromEntries(Object.entries(inputs).filter(([, value]) => ArrayBuffer.isView(value)));
}
