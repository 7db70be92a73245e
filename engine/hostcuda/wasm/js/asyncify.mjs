// A worker for Binaryen's pass by which functions can stop and go on: fibers (include/hostcuda/context.h). It is ended after
// a job: Binaryen gives no memory back.
import begin from './binaryen.js';

/**
 * @param {object} binaryen
 * @param {Uint8Array} bytes     a module
 * @param {boolean} pointers     whether its kernels call functions by pointers, which may then wait
 */
function asyncify(binaryen, bytes, pointers) {
  const { SIMD128, BulkMemory, SignExt, NontrappingFPToInt, MutableGlobals, Multivalue, ReferenceTypes, BulkMemoryOpt = 0, CallIndirectOverlong = 0 } = binaryen.Features;
  const module = binaryen.readBinary(bytes);
  module.setFeatures(SIMD128 | BulkMemory | SignExt | NontrappingFPToInt | MutableGlobals | Multivalue | ReferenceTypes | BulkMemoryOpt | CallIndirectOverlong);
  binaryen.setOptimizeLevel(0);
  binaryen.setShrinkLevel(0);
  binaryen.clearPassArguments();
  binaryen.setPassArgument('asyncify-imports', 'none.none');
  binaryen.setPassArgument('asyncify-removelist', 'leave(Block&)'); // it does not come back
  if (!pointers) {
    binaryen.setPassArgument('asyncify-ignore-indirect', '1');
    binaryen.setPassArgument('asyncify-addlist', 'fiber_main()'); // it calls the kernel by a pointer
  }
  module.runPasses(['asyncify']);
  const result = module.emitBinary();
  module.dispose();
  return result;
}

onmessage = async ({ data: { wasm, built } }) => {
  try {
    const instantiateWasm = (imports, done) => { WebAssembly.instantiate(wasm, imports).then(done); };
    const binaryen = await begin({ instantiateWasm }), modules = [];
    for (const { bytes, pointers } of built) modules.push(await WebAssembly.compile(asyncify(binaryen, bytes, pointers)));
    postMessage({ modules });
  } catch (error) {
    postMessage({ error: String(error.message ?? error) });
  }
};
