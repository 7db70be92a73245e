// One module of kernels with a memory of its own: buffers, launches, what they have written.

const encoder = new TextEncoder(), decoder = new TextDecoder();
const now = () => performance.now();

/** The launch was left: by the runtime, which knows why, or by a call of exit. */
class Left extends Error {}
/** The module was made without asyncify, and a thread has to wait. */
export class NeedsFibers extends Error {}

// Traps as the signals of Linux that they would be there.
const SIGNALS = [[/divide|division|remainder/i, 8], [/unreachable/i, 4], [/./, 11]];

export class Instance {
  /**
   * @param {WebAssembly.Module} module
   * @param {string} tools  of check mode, separated by commas
   */
  static async make(module, tools = '') {
    const self = new Instance(), variable = `HOSTCUDA_CHECK=${tools}\0`;
    self.said = '';
    const view = () => new DataView(self.x.memory.buffer);
    const system = {
      environ_sizes_get(count, bytes) { view().setUint32(count, 1, true); view().setUint32(bytes, variable.length, true); return 0; },
      environ_get(pointers, bytes) { view().setUint32(pointers, bytes, true); self.bytes(bytes, variable.length).set(encoder.encode(variable)); return 0; },
      clock_time_get(id, precision, at) { view().setBigUint64(at, BigInt(Math.round(now() * 1e6)), true); return 0; },
      fd_write(file, pieces, count, written) {
        let total = 0;
        for (let i = 0; i < count; i++) {
          const [at, length] = [0, 4].map(offset => view().getUint32(pieces + 8 * i + offset, true));
          self.said += decoder.decode(self.bytes(at, length));
          total += length;
        }
        view().setUint32(written, total, true);
        return 0;
      },
      sched_yield: () => 0,
      proc_exit() { self.x.hc_trapped(6); throw new Left('exit'); },
    };
    const unknown = 52; // WASI: the function is not supported
    const imports = {
      wasi_snapshot_preview1: new Proxy(system, { get: (functions, name) => functions[name] ?? (() => unknown) }),
      hostcuda: { leave() { throw new Left('left'); }, enter: () => self.enter() },
      asyncify: new Proxy({}, { get: () => () => { throw new NeedsFibers('a thread has to wait'); } }),
    };
    self.x = (await WebAssembly.instantiate(module, imports)).exports;
    self.x._initialize();
    self.kernels = JSON.parse(self.text(self.x.hc_kernels()));
    return self;
  }

  entered() {} // a worker's, to tell how far a launch has come

  bytes(at, length) { return new Uint8Array(this.x.memory.buffer, at, length); }

  text(at) {
    const all = new Uint8Array(this.x.memory.buffer);
    return decoder.decode(all.slice(at, all.indexOf(0, at)));
  }

  /** Run threads until their block has ended or is left. */
  enter() {
    this.entered();
    const { x } = this, stack = x.__stack_pointer.value;
    try {
      x.hc_run();
    } catch (error) {
      if (error instanceof NeedsFibers || (!(error instanceof Left) && !(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)))
        throw error;
      if (!(error instanceof Left)) x.hc_trapped(SIGNALS.find(([pattern]) => pattern.test(error.message))[1]);
    }
    x.__stack_pointer.value = stack;
  }

  /** Memory of the device: filled with the bytes of an array, or of that size and with what memory holds at first. */
  allocate(content) {
    const size = content.byteLength ?? content, at = this.x.hc_alloc(size) >>> 0;
    if (!at) throw new Error(`there is no memory for ${size.toLocaleString('en')} bytes`);
    if (content.byteLength !== undefined) this.write(at, content);
    return at;
  }

  write(at, array) {
    this.bytes(at, array.byteLength).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    this.x.hc_written(at, array.byteLength);
  }

  read(at, length) { return this.bytes(at, length).slice(); }

  /** The address of a variable of the source; undefined if there is none of that name. */
  variable(name) { return this.x[name]?.value; }

  /** Launch a kernel; returns an empty text, or why it failed. */
  launch({ kernel, grid, block, shared = 0 }, values) {
    const plain = name => name.replace(/\s/g, ''), number = this.kernels.findIndex(each => plain(each.name) === plain(kernel));
    if (number < 0) return `there is no kernel ${kernel}: the source has ${this.kernels.map(each => each.name).join(', ') || 'none'}`;
    const { parameters, bytes, threads } = this.kernels[number];
    if (parameters.length !== values.length) return `kernel ${kernel} has ${parameters.length} parameters, and the launch gives ${values.length} arguments`;
    if (block.some(size => size < 1) || grid.some(size => size < 1)) return `kernel ${kernel}: each size of grid and block has to be at least 1`;
    if (block[0] * block[1] * block[2] > Math.min(1024, threads)) return `kernel ${kernel}: a block may have ${Math.min(1024, threads)} threads`;
    if (bytes > 4096 || shared > 227 * 1024) return `kernel ${kernel}: its arguments or its shared memory are too large`;
    const packed = this.x.hc_arguments() >>> 0, view = new DataView(this.x.memory.buffer);
    parameters.forEach(([kind, size, offset], i) => {
      const at = packed + offset, value = values[i];
      if (kind === 'f' && size === 4) view.setFloat32(at, value, true);
      else if (kind === 'f' && size === 8) view.setFloat64(at, value, true);
      else if (size === 8) view.setBigInt64(at, BigInt(value), true);
      else if (size === 4) view.setInt32(at, Number(value), true);
      else if (size === 2) view.setInt16(at, Number(value), true);
      else view.setInt8(at, Number(value));
    });
    const good = this.x.hc_launch_and_wait(number, ...grid, ...block, shared, packed);
    return good ? '' : this.text(this.x.hc_error());
  }

  /** What a function of the runtime hands over piece by piece. */
  take(name) {
    if (!this.x[name]) return '';
    const size = 1 << 16, at = this.room ??= this.x.hc_alloc(size) >>> 0, pieces = [];
    for (let count; (count = this.x[name](at, size));) pieces.push(this.read(at, count));
    return pieces.map(piece => decoder.decode(piece)).join('');
  }

  /** The records of check mode, a text in JSON per launch. */
  records() { return this.take('hc_check_take').split('\n').filter(Boolean); }

  printed() { return this.take('hc_printf_take') + this.said; }

  memory() { return this.x.memory.buffer.byteLength; }
}
