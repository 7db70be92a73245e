// The site's search: the words in the address, or in the field, are looked up in the index beside this file.
import * as pagefind from './pagefind.js';

const SHOWN = 20, SECTIONS = 3;
const form = document.querySelector('form'), field = form.elements.q;
const status = document.getElementById('status'), results = document.getElementById('results');

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** A link with its words around what was found; pagefind has escaped all but <mark>. */
const found = ({ url, title, excerpt }) => [element('a', { href: url }, title), element('p', { innerHTML: excerpt })];

function entry({ url, meta, excerpt, sub_results: sections }) {
  const inside = sections.filter(section => section.url !== url).slice(0, SECTIONS);
  const [heading, about] = found({ url, title: meta.title, excerpt });
  return element('li', {}, element('h2', {}, heading), ...(inside.length
    ? [element('ul', {}, ...inside.map(section => element('li', {}, ...found(section))))] : [about]));
}

/** Whether a page has what was asked for: for words that no page has, pagefind answers with shorter ones, down to a letter. */
function fits({ excerpt, sub_results: sections }, words) {
  const marked = [excerpt, ...sections.map(section => section.excerpt)].join().toLowerCase().match(/(?<=<mark>).*?(?=<\/mark>)/g) ?? [];
  const letters = words.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  return !letters.length || letters.some(word => marked.some(text => text.includes(word.slice(0, 3))));
}

/** Put each page before its closer look, which has more of the same words. */
function putPagesFirst(pages) {
  const name = ({ url }) => url.replace(/.*\//, ''), isCloser = ({ url }) => url.includes('/closer_look/');
  for (const [at, page] of pages.entries()) {
    const own = isCloser(page) ? pages.findIndex(other => !isCloser(other) && name(other) === name(page)) : -1;
    if (own > at) [pages[at], pages[own]] = [pages[own], page];
  }
}

async function search() {
  const words = field.value.trim();
  history.replaceState(null, '', words ? `?q=${encodeURIComponent(words)}` : location.pathname);
  const answer = words ? await pagefind.search(words) : { results: [] };
  const pages = await Promise.all(answer.results.slice(0, SHOWN).map(result => result.data()));
  putPagesFirst(pages);
  if (words !== field.value.trim()) return; // more was typed in the meantime
  const nothing = !pages.some(page => fits(page, words)), count = nothing ? 0 : answer.results.length;
  results.replaceChildren(...(nothing ? [] : pages.map(entry)));
  status.textContent = !words ? '' : count > SHOWN ? `The first ${SHOWN} of ${count} pages.` : count ? `${count} page${count === 1 ? '' : 's'}.` : 'Nothing found: no page has these words.';
}

let waiting = 0;
field.oninput = () => { clearTimeout(waiting); waiting = setTimeout(search, 200); };
form.onsubmit = event => { event.preventDefault(); search(); };
field.value = new URLSearchParams(location.search).get('q') ?? '';
try {
  await pagefind.options({ baseUrl: new URL('..', import.meta.url).pathname, excerptLength: 24 });
  await pagefind.init();
  document.getElementById('without').remove();
  form.hidden = false;
  field.focus();
  await search();
} catch (error) {
  status.textContent = `The search did not start: ${error.message ?? error}`;
}
