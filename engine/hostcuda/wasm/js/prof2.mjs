import fs from 'node:fs'; import zlib from 'node:zlib';
import { loadPyodide } from 'pyodide'; import { runLLVM } from '@yowasp/clang'; import { Compiler } from './compiler.mjs';
const site='/tmp/x/site/engine/', z = n => new Uint8Array(zlib.gunzipSync(fs.readFileSync(site+n+'.z')));
await runLLVM(null, {}, { fetchProgress() {} });
const pyodide = await loadPyodide({ env: { HOME: '/home/pyodide', HOSTCUDA_CACHE_DIR: '/cache' } });
let pieces=0, bytes=0; const llvm=(c,f,o)=>{ pieces=bytes=0; const s=o.stdout; o.stdout=b=>{ if(b){pieces++; bytes+=b.length;} s(b)}; const t=performance.now(), u0=process.cpuUsage().user; try { return runLLVM(c,f,o);} finally { console.log(c.at(-1), (performance.now()-t).toFixed(0),'ms cpu', ((process.cpuUsage().user-u0)/1000).toFixed(0), 'pieces', pieces, 'bytes', bytes, 'rss', process.memoryUsage().rss>>20, 'ext', process.memoryUsage().external>>20, 'heap', process.memoryUsage().heapUsed>>20);} };
const c = Compiler.of(pyodide, llvm, z('python.zip'), z('cache.zip'));
const judging = pyodide.pyimport('labkit.playground.judging'); judging.load(new TextDecoder().decode(z('exercises.json')), z('exercises.bin'));
const sources = JSON.parse(fs.readFileSync('/tmp/x/sources.json'));
for (const n of process.argv.slice(2)) { const plan = JSON.parse(judging.plan(n, sources[n])); for (const cs of plan.cases) { const t0=process.cpuUsage().user; const r=c.compile({...cs.compile, check:true, warn:false}); console.log('cpu', (process.cpuUsage().user-t0)/1000); if (r.error) console.log(r.error);} }
