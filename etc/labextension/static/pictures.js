// JupyterLab shows a picture without its text twin, which is in the same output.
// This renders pictures as JupyterLab does, and makes the twin their alternative text.
(() => {
  let shared; // modules that JupyterLab shares with extensions, by name and version

  async function imported(name) {
    const [version] = Object.values(shared[name]);
    return (await version.get())();
  }

  async function extension() {
    const { RenderedImage } = await imported("@jupyterlab/rendermime");

    class SpokenImage extends RenderedImage {
      async render(model) {
        await super.render(model);
        const text = model.data["text/plain"];
        const image = this.node.querySelector("img");
        if (image && text) image.alt = [text].flat().join("");
      }
    }

    const rendererFactory = {
      safe: true,
      mimeTypes: ["image/png"],
      createRenderer: (options) => new SpokenImage(options),
    };
    return {
      id: "course-utils-pictures:png",
      description: "Shows a picture with its text as alternative text.",
      rendererFactory,
      rank: 90, // that of JupyterLab's own renderer
      dataType: "string",
    };
  }

  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB["course-utils-pictures"] = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => {
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
