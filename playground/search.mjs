// Adds the search to a site: node search.mjs FOLDER. Its index is made of the pages' <main data-pagefind-body>.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { close, createIndex } from 'pagefind';

const site = resolve(process.argv[2]), out = join(site, 'search'), here = dirname(fileURLToPath(import.meta.url));
const USED = /^(pagefind\.js|pagefind-worker\.js|pagefind-entry\.json|wasm\.en\.pagefind|.*\.pf_(meta|index|fragment))$/; // not its own pages
// Answers come first; closer looks, and what is about the engine, last.
const weigh = path => /^(faq|glossary)/.test(path) ? 2 : /^(\d\d_|practice|results|instructors)/.test(path) ? 1 : 0.5;
const LEFT_OUT = ['.provenance', '.outputs', '.anchor', 'math'];
const done = ({ errors, ...answer }) => {
  if (errors.length) throw new Error(errors.join('; '));
  return answer;
};

const { index } = done(await createIndex({ forceLanguage: 'en', excludeSelectors: LEFT_OUT }));
const pages = readdirSync(site, { recursive: true }).filter(name => name.endsWith('.html') && !name.startsWith('playground'));
for (const sourcePath of pages) {
  const content = readFileSync(join(site, sourcePath), 'utf8').replace(/"data:[^"]*"/g, '""') // pictures, which it takes for words
    .replace('data-pagefind-body', `$& data-pagefind-weight="${weigh(sourcePath)}"`);
  if (content.includes('data-pagefind-body')) done(await index.addHTMLFile({ sourcePath, content }));
}
const { files } = done(await index.getFiles());
const pieces = folder => existsSync(folder) ? readdirSync(folder, { recursive: true }).filter(name => /\.pf_\w+$/.test(name)) : [];
for (const name of pieces(out)) rmSync(join(out, name)); // of an earlier site
for (const { path, content } of files) {
  if (!USED.test(path.replace(/^.*\//, ''))) continue;
  mkdirSync(dirname(join(out, path)), { recursive: true });
  writeFileSync(join(out, path), content);
}
copyFileSync(join(here, 'src', 'search.js'), join(out, 'search.js'));
const { name, version, license } = JSON.parse(readFileSync(join(here, 'node_modules', 'pagefind', 'package.json'), 'utf8'));
writeFileSync(join(out, 'licences.txt'), `${name} ${version}, ${license}\n\n${readFileSync(join(here, 'node_modules', 'pagefind', 'LICENSE', 'LICENSE'), 'utf8')}`);
await close();
