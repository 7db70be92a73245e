// The launch of a kernel of one's own: a form for grid, block and arguments, made of the kernel's parameters.
import { half } from '../../engine/hostcuda/wasm/js/half.mjs';
import { element } from './show.js';

// The types of an array's elements, on the device and here.
const ARRAYS = {
  'float': 'float32', 'double': 'float64', '__half': 'float16', 'half': 'float16', 'char': 'int8', 'signed char': 'int8', 'int8_t': 'int8',
  'unsigned char': 'uint8', 'uint8_t': 'uint8', 'bool': 'uint8', 'short': 'int16', 'int16_t': 'int16', 'unsigned short': 'uint16',
  'uint16_t': 'uint16', 'int': 'int32', 'int32_t': 'int32', 'unsigned': 'uint32', 'unsigned int': 'uint32', 'uint32_t': 'uint32',
  'long long': 'int64', 'long long int': 'int64', 'int64_t': 'int64', 'unsigned long long': 'uint64', 'unsigned long long int': 'uint64', 'uint64_t': 'uint64',
};
const VECTORS = { char: 'int8', uchar: 'uint8', short: 'int16', ushort: 'uint16', int: 'int32', uint: 'uint32', longlong: 'int64', ulonglong: 'uint64', float: 'float32', double: 'float64', half: 'float16', __half: 'float16' };
const NUMBERS = /^(?:(?:unsigned |signed )?(?:char|short|int|long(?: long)?(?: int)?)|unsigned|bool|float|double|size_t|u?int\d+_t)$/;
const CONSTRUCTORS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
};
const LARGEST = 1 << 28; // bytes of all arrays of a launch
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

const DEFINED = /(\btemplate\s*(<[^;{}()]*>)?\s*)?(?:(?:extern\s*"C"|static|inline)\s+)*__global__\s[^;{}()]*?(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*?)?(\w+)\s*(<[^;{}()]*>)?\s*\(([^)]*)\)/g;
const split = list => list.split(',').map(each => each.trim()).filter(Boolean);
const plain = text => text.replace(/\s/g, '');

/**
 * The kernels of a source: `{name, template, made, list}`. `template` has its parameters, `{name, preset}`; `made` the arguments
 * with which the source itself instantiates it; `list` its parameters as they are written.
 */
export function kernels(source) {
  const code = source.replace(/\/\*[^]*?\*\/|\/\/.*/g, ' '), found = new Map(), made = [];
  for (const [, template, head, name, given, list] of code.matchAll(DEFINED)) {
    if (given) made.push([name, given.slice(1, -1)]);
    else if (!found.has(name) && (!template || head)) found.set(name, { name, template: head ? split(head.slice(1, -1)).map(placeholder) : [], made: [], list: split(list) });
  }
  for (const [name, given] of made) found.get(name)?.made.push(given);
  return [...found.values()];
}

function placeholder(text) {
  const [declared, preset] = text.split('=').map(part => part.trim()), [, type, name] = declared.match(/^(.*?)\s*(\w+)$/) ?? ['', '', declared];
  return { name, preset: preset ?? (/typename|class/.test(type) ? 'float' : '4') };
}

/** The template arguments of a launch, as text; empty for a kernel that is no template. */
const given = (kernel, launch) => kernel.template.length ? launch.values[`${kernel.name}<>`]?.value ?? kernel.made[0] ?? kernel.template.map(each => each.preset).join(', ') : '';

/** The parameters, `{name, type, array, width, number}`: `array` is the type of the elements' numbers, of which each has `width`. */
export function parameters(kernel, launch) {
  const values = split(given(kernel, launch)), bound = text => kernel.template.reduce((words, { name }, i) => words.replace(new RegExp(`\\b${name}\\b`, 'g'), values[i] ?? name), text);
  return kernel.list.map(text => parameter(bound(text.replace(/=[^]*/, ''))));
}

function parameter(text) {
  const words = text.replace(/\b(const|volatile|__restrict__|__restrict|restrict)\b/g, ' ').replace(/\[\s*\]/, ' * ');
  const name = words.match(/(\w+)\s*\*?\s*$/)?.[1] ?? '', pointer = words.includes('*');
  const type = words.replace(/\*/g, ' ').replace(new RegExp(`\\b${name}\\s*$`), ' ').replace(/\s+/g, ' ').trim();
  const [, of, width] = type.match(/^(\w+?)([1-4])$/) ?? [], elements = ARRAYS[type] ?? VECTORS[of];
  return { name, type: pointer ? `${type} *` : type, array: pointer && words.split('*').length === 2 ? elements : undefined, width: ARRAYS[type] ? 1 : Number(width ?? 1), number: !pointer && NUMBERS.test(type) };
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
  const chosen = kernel?.template.length > 0 && templates(kernel, launch, () => { change(); draw(form, source, launch, change); });
  const several = element('select', { name: 'kernel' }, ...found.map(each => element('option', { value: each.name, selected: each === kernel }, each.name)));
  several.onchange = () => { launch.kernel = several.value; change(); draw(form, source, launch, change); };
  form.replaceChildren(
    element('fieldset', {}, element('legend', {}, 'Launch'),
      element('div', { className: 'sizes' },
        found.length > 1 && element('label', {}, 'Kernel', several), chosen,
        field('Grid', 'grid', 'blocks: x or x, y, z'), field('Block', 'block', 'threads: x or x, y, z'), field('Dynamic shared memory', 'shared', 'bytes per block')),
      kernel ? element('div', { className: 'arguments' }, ...parameters(kernel, launch).map(each => argument(each, launch.values[each.name] ??= {}, change)))
        : element('p', {}, 'There is no kernel yet. A kernel begins with __global__ void.')));
}

function templates(kernel, launch, change) {
  const input = element('input', { name: 'template', value: given(kernel, launch), autocomplete: 'off' });
  input.onchange = () => { launch.values[`${kernel.name}<>`] = { value: input.value }; change(); };
  return element('label', {}, 'Template arguments', input, element('small', {}, `for ${kernel.template.map(each => each.name).join(', ')}`));
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
  const chosen = given(kernel, launch), full = chosen ? `${kernel.name}<${chosen}>` : kernel.name, asked = parameters(kernel, launch);
  if (split(chosen).length !== kernel.template.length) throw new Error(`Template arguments: ${kernel.name} has ${kernel.template.length}, for ${kernel.template.map(each => each.name).join(', ')}.`);
  const inputs = {}, shapes = {}, values = asked.map(({ name, type, array, width, number }) => {
    const given = launch.values[name] ?? {};
    if (number) return whole(given.value, `argument ${name}`, /float|double/.test(type));
    if (!array) throw new Error(`Argument ${name} is a ${type}, and this page passes numbers and arrays of numbers only.`);
    inputs[name] = content(array, width, given, name);
    shapes[name] = { half: array === 'float16', width };
    return name;
  });
  const bytes = Object.values(inputs).reduce((sum, each) => sum + (each.byteLength ?? each.length * CONSTRUCTORS[each.type].BYTES_PER_ELEMENT), 0);
  if (bytes > LARGEST) throw new Error(`The arrays have ${bytes.toLocaleString('en')} bytes together; here they may have ${LARGEST.toLocaleString('en')}.`);
  const instance = chosen && !kernel.made.some(made => plain(made) === plain(chosen)) ? `\ntemplate __global__ void ${full}(${asked.map(each => each.type).join(', ')});\n` : '';
  const shared = whole(launch.shared, 'dynamic shared memory');
  return { source: source + instance, inputs, shapes, launch: { kernel: full, grid: sizes(launch.grid, 'grid'), block: sizes(launch.block, 'block'), shared, arguments: values } };
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

/** An array, or what the engine makes one of: `{type, length, fill}`. */
function content(type, width, { length, fill, values }, name) {
  if (fill === 'values') return array(type, String(values).split(/[\s,]+/).filter(Boolean).map(each => whole(each, `array ${name}`, true)));
  const count = whole(length, `elements of ${name}`);
  if (count < 1) throw new Error(`Elements of ${name}: an array has 1 element or more.`);
  return { type, length: count * width, ...(fill !== 'nothing' && { fill }) };
}

const array = (type, values) => CONSTRUCTORS[type].from(type === 'float16' ? values.map(half) : /64$/.test(type) && !type.startsWith('float') ? values.map(value => BigInt(Math.trunc(value))) : values);
