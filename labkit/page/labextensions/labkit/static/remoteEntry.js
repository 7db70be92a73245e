// Two things that the lab's notebooks need of JupyterLab 4. It colours a cell by its notebook's language, whatever its
// magic: here, cells that begin with %%kernel or %%cuda are shown as C++ with CUDA's names. And it writes the kernel's version into a
// notebook that is only opened: here, such a notebook counts as unchanged, so that it is not saved.
// Written as the container that JupyterLab loads, so that nothing has to be built.

(() => {
  const CUDA = /^%%(kernel|cuda)\b/;
  const CPP = "text/x-c++src";
  const CUDA_CPP = "text/x-cuda";
  const QUALIFIER = /^__\w+__$/;
  const NAMES = new RegExp(String.raw`\b(?:${[
    "(?:thread|block)Idx", "(?:block|grid)Dim", "warpSize", "dim3", // built-in variables
    "u?(?:char|short|int|long|longlong)[1-4]", "(?:float|double)[1-4]", "(?:__)?half2?", "__nv_bfloat162?", "cuda\\w+_t",
    "__[a-z]\\w*", "atomic[A-Z]\\w*", // qualifiers and functions
  ].join("|")})\b`, "g");
  const PYTHON = ["text/x-python", "text/x-ipython"]; // the notebook's before and after the kernel has answered
  let scope; // the packages that JupyterLab shares with its extensions

  async function shared(name) {
    const factory = await Object.values(scope[name])[0].get();
    return factory();
  }

  // CodeMirror's C++, in which CUDA's names are marked outside of comments and strings.
  async function cudaLanguage(languages) {
    const { EditorView, Decoration, MatchDecorator, ViewPlugin } = await shared("@codemirror/view");
    const { LanguageSupport, syntaxTree } = await shared("@codemirror/language");
    const { Prec } = await shared("@codemirror/state");
    const { support } = await languages.getLanguage(CPP);
    const marks = ["keyword", "builtin"].map((kind) => Decoration.mark({ class: `cm-cuda-${kind}` }));
    const matcher = new MatchDecorator({
      regexp: NAMES,
      decoration: (match, view, at) => {
        if (/Comment|String/.test(syntaxTree(view.state).resolveInner(at, 1).name)) return null;
        return marks[QUALIFIER.test(match[0]) ? 0 : 1];
      },
    });
    const names = ViewPlugin.fromClass(class {
      constructor(view) { this.marked = matcher.createDeco(view); }
      update(update) {
        const parsed = syntaxTree(update.state) !== syntaxTree(update.startState); // it knows more comments now
        this.marked = parsed ? matcher.createDeco(update.view) : matcher.updateDeco(update, this.marked);
      }
    }, { decorations: (plugin) => plugin.marked });
    const theme = EditorView.baseTheme({
      ".cm-cuda-keyword, .cm-cuda-keyword *": { color: "var(--jp-mirror-editor-keyword-color)", fontWeight: "bold" },
      ".cm-cuda-builtin, .cm-cuda-builtin *": { color: "var(--jp-mirror-editor-builtin-color)" },
    });
    return new LanguageSupport(support.language, [support.support, Prec.highest(names), theme]);
  }

  function watch(cell) {
    if (cell.type !== "code") return;
    let own = cell.mimeType; // the notebook's, for a cell that ceases to be CUDA
    const update = () => {
      if (cell.mimeType !== CUDA_CPP) own = cell.mimeType;
      cell.mimeType = CUDA.test(cell.sharedModel.getSource()) ? CUDA_CPP : own;
    };
    update();
    cell.contentChanged.connect(update);
    cell.mimeTypeChanged.connect(update); // the notebook sets its own once the kernel has answered
  }

  async function leaveUnchanged(panel) {
    const model = panel.context.model;
    let edited = false;
    for (const cell of model.cells) cell.contentChanged.connect(() => { edited = true; });
    model.cells.changed.connect(() => { edited = true; });
    await panel.sessionContext.ready;
    await panel.sessionContext.session?.kernel?.info;
    setTimeout(() => { if (!edited) model.dirty = false; }, 0); // after the notebook's own reaction to the kernel
  }

  async function extension() {
    const { INotebookTracker } = await shared("@jupyterlab/notebook");
    const { IEditorLanguageRegistry } = await shared("@jupyterlab/codemirror");
    return {
      id: "labkit:kernel-cells",
      description: "Shows kernel cells as CUDA C++, and leaves a notebook unchanged that is only opened.",
      autoStart: true,
      requires: [INotebookTracker, IEditorLanguageRegistry],
      activate: (app, notebooks, languages) => {
        languages.addLanguage({ name: "CUDA C++", mime: CUDA_CPP, load: () => cudaLanguage(languages) });
        // An editor shows the language that was loaded last, not the one that was asked for last: so load all first.
        const loaded = Promise.all([CUDA_CPP, ...PYTHON].map((type) => languages.getLanguage(type)));
        notebooks.widgetAdded.connect(async (_, panel) => {
          await Promise.all([loaded, panel.context.ready]);
          const cells = panel.content.model.cells;
          for (const cell of cells) watch(cell);
          cells.changed.connect((_, change) => change.newValues.forEach(watch));
          leaveUnchanged(panel);
        });
      },
    };
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB.labkit = {
    init: (packages) => { scope = packages; },
    get: async () => {
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
