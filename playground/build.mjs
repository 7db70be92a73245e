// Bundles the page: node build.mjs FOLDER. Nothing is loaded from another host when the page runs.
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const out = resolve(process.argv[2]), here = dirname(fileURLToPath(import.meta.url));
process.chdir(here);
const { metafile } = await build({
  absWorkingDir: here, entryPoints: ['main.js', 'style.css', 'cell.js', 'desk.css', 'embed.js'].map(name => `./src/${name}`), outdir: out, bundle: true, splitting: true, chunkNames: 'common', format: 'esm', minify: true, target: 'es2022',
  external: ['./lab.mjs'], metafile: true, logLevel: 'warning',
});
for (const name of ['index.html', 'live.js', 'embed.html', 'badge.svg']) copyFileSync(join('src', name), join(out, name));

// What is in the bundle, with its licences.
const packages = Object.keys(metafile.inputs).map(path => path.match(/^(node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1]);
const texts = [...new Set(packages.filter(Boolean))].sort().map(folder => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = ['LICENSE', 'LICENSE.md', 'license'].map(each => join(folder, each)).find(existsSync);
  if (!file) throw new Error(`${name} has no file with its licence`);
  return `${name} ${version}, ${license}\n\n${readFileSync(file, 'utf8').trim()}\n`;
});
writeFileSync(join(out, 'licences.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`));
