"""The engine's second target, WebAssembly: for a browser. docs/browser.md says how it is made."""
