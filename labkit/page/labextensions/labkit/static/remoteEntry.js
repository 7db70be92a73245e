// JupyterLab 4 colours a cell by its notebook's language, whatever its magic. This extension shows cells that begin with
// %%kernel or %%cuda as C++. It is written as the container that JupyterLab loads, so that nothing has to be built.

(() => {
  const CUDA = /^%%(kernel|cuda)\b/;
  const CPP = "text/x-c++src";
  let scope; // the packages that JupyterLab shares with its extensions

  async function shared(name) {
    const factory = await Object.values(scope[name])[0].get();
    return factory();
  }

  function watch(cell) {
    if (cell.type !== "code") return;
    let own = cell.mimeType; // the notebook's, for a cell that ceases to be CUDA
    const update = () => {
      if (cell.mimeType !== CPP) own = cell.mimeType;
      cell.mimeType = CUDA.test(cell.sharedModel.getSource()) ? CPP : own;
    };
    update();
    cell.contentChanged.connect(update);
    cell.mimeTypeChanged.connect(update); // the notebook sets its own once the kernel has answered
  }

  async function extension() {
    const { INotebookTracker } = await shared("@jupyterlab/notebook");
    return {
      id: "labkit:kernel-cells",
      description: "Shows cells that begin with %%kernel or %%cuda as C++.",
      autoStart: true,
      requires: [INotebookTracker],
      activate: (app, notebooks) => {
        notebooks.widgetAdded.connect(async (_, panel) => {
          await panel.context.ready;
          const cells = panel.content.model.cells;
          for (const cell of cells) watch(cell);
          cells.changed.connect((_, change) => change.newValues.forEach(watch));
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
