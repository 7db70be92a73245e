// Takes the WebAssembly out of Binaryen's JavaScript, which holds it as a text: node unpack.mjs OUT.wasm
import fs from 'node:fs';

const { instantiate } = WebAssembly;
WebAssembly.instantiate = (bytes, imports) => {
  fs.writeFileSync(process.argv[2], bytes);
  return instantiate(bytes, imports);
};
await import('binaryen');
