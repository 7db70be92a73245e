// Binaryen's pass by which functions can stop and go on: fibers (include/hostcuda/context.h).
import binaryen from './binaryen.js';

const { SIMD128, BulkMemory, SignExt, NontrappingFPToInt, MutableGlobals, Multivalue, ReferenceTypes, BulkMemoryOpt = 0, CallIndirectOverlong = 0 } = binaryen.Features;

/**
 * @param {Uint8Array} bytes     a module
 * @param {boolean} pointers     whether its kernels call functions by pointers, which may then wait
 */
export function asyncify(bytes, pointers) {
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
