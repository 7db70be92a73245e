// A kernel alone, for somebody else's page: embed.html#code=…, a link that carries it.
import { Desk } from './desk.js';
import { unpacked } from './keep.js';
import * as engine from './lab.js';
import * as own from './launch.js';

const [, code] = location.hash.match(/\bcode=([\w-]+)/) ?? [];
let given = own.EXAMPLE, damaged = false, prepared;
try {
  if (code) given = await unpacked(code);
} catch {
  damaged = true;
}
const { kind = 'own', name, part, magic, source, launch } = given;
const key = `link ${code?.slice(-24) ?? ''}`, label = magic ? `Kernel of the cell ${magic}` : 'Kernel, CUDA C++';
const desk = new Desk({ kind, name, part, magic, key, label, start: source, launch });
document.querySelector('main').append(desk.root);
if (damaged) desk.say('The link is damaged: it carries no kernel.');
desk.root.addEventListener('keydown', event => desk.key(event), true);
for (const first of ['click', 'keydown']) desk.root.addEventListener(first, () => { prepared ??= desk.prepare(); }, true); // not for those who only read
addEventListener('pagehide', () => desk.save());
addEventListener('hashchange', () => location.reload()); // another kernel
engine.keepPage();
