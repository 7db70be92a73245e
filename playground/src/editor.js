// The editor: C++ with the words of CUDA, marks at lines, the colours of the lab's pages.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { cpp } from '@codemirror/lang-cpp';
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorState } from '@codemirror/state';
import {
  Decoration, drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, MatchDecorator, ViewPlugin,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';

const words = new MatchDecorator({
  regexp: /\b(__(?:global|device|host|shared|constant|restrict|launch_bounds|forceinline|noinline)__|__sync\w+|__shfl\w+|__ldg|threadIdx|blockIdx|blockDim|gridDim|warpSize|atomic[A-Z]\w+)\b/g,
  decoration: Decoration.mark({ class: 'cuda' }),
});
const cuda = ViewPlugin.define(
  view => ({ decorations: words.createDeco(view), update(change) { this.decorations = words.updateDeco(change, this.decorations); } }),
  { decorations: plugin => plugin.decorations },
);
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.typeName, tags.modifier, tags.operatorKeyword], color: 'var(--keyword)' },
  { tag: [tags.string, tags.character], color: 'var(--string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--number)' },
  { tag: tags.comment, color: 'var(--comment)', fontStyle: 'italic' },
  { tag: tags.processingInstruction, color: 'var(--built)' },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], color: 'var(--name)' },
]);

export class Editor {
  /** `change(text)` is called after each edit; `above` is the number of lines that come before the text. */
  constructor(parent, change, above = 0) {
    this.above = above;
    this.label = new Compartment();
    this.extensions = [
      lineNumbers({ formatNumber: line => String(line + above) }), highlightActiveLine(), highlightActiveLineGutter(), lintGutter(), history(), drawSelection(), indentOnInput(),
      bracketMatching(), cpp(), cuda, syntaxHighlighting(colours), indentUnit.of('    '), EditorState.tabSize.of(4),
      keymap.of([...defaultKeymap.filter(each => !/Enter/.test(each.key ?? '') || each.key === 'Enter'), ...historyKeymap, ...lintKeymap, indentWithTab]),
      EditorView.updateListener.of(update => update.docChanged && change(this.text)),
    ];
    this.view = new EditorView({ parent });
  }

  get text() { return this.view.state.doc.toString(); }

  /** Begin with a text; there is nothing to undo. `keys` is the id of the element that says how to leave the editor. */
  open(text, label, keys) {
    const name = EditorView.contentAttributes.of({ 'aria-label': label, 'aria-describedby': keys, tabindex: '0' });
    this.view.setState(EditorState.create({ doc: text, extensions: [this.extensions, this.label.of(name)] }));
  }

  /** Replace the text by another one; Ctrl+Z brings it back. */
  replace(text) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** Show marks: `{line, column, severity, message}`. Lines that there are not have none. */
  mark(marks) {
    const { doc } = this.view.state;
    const diagnostics = marks.map(each => ({ ...each, line: each.line - this.above })).filter(({ line }) => line >= 1 && line <= doc.lines).map(({ line, column, severity, message }) => {
      const { from, to, text } = doc.line(line), start = from + Math.min(column > 1 ? column - 1 : text.search(/\S|$/), text.length);
      const word = column > 1 && doc.sliceString(start, to).match(/^\w+/);
      return { from: start, to: word ? start + word[0].length : to, severity, message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics.sort((a, b) => a.from - b.from)));
  }

  /** Put the cursor at a line, in the middle of the editor. */
  goTo(number) {
    const { from, to } = this.view.state.doc.line(Math.max(1, Math.min(number - this.above, this.view.state.doc.lines)));
    this.view.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: 'center' }) });
    this.view.focus();
    this.view.dom.scrollIntoView({ block: 'nearest' });
  }
}
