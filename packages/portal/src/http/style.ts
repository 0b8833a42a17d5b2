/** The style sheet of our server-rendered pages, light and dark. */
export const STYLE: string = `
:root { color-scheme: light dark; --line: light-dark(#d8dde3, #343b44); --soft: light-dark(#f4f6f8, #1b2027);
  --ink: light-dark(#1c2430, #e6eaef); --mute: light-dark(#5a6675, #9aa6b4); --link: light-dark(#0b5cad, #7cb7f5); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; color: var(--ink); line-height: 1.55;
  background: light-dark(#fff, #12161b); font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", sans-serif; }
a { color: var(--link); } h1 { margin: 0 0 .25rem; } h2 { margin: 2.5rem 0 .75rem; } h3 { margin: 0; font-size: 1rem; }
p { margin: .5rem 0; } .mute { color: var(--mute); } code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .75rem; border-radius: .4rem; background: var(--soft); }
table { width: 100%; border-collapse: collapse; margin: .5rem 0; } th, td { padding: .35rem .5rem; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--line); } th { color: var(--mute); font-weight: 600; }
details { margin: .6rem 0; border: 1px solid var(--line); border-radius: .5rem; } details > div { padding: 0 1rem 1rem; }
summary { display: flex; flex-wrap: wrap; gap: .75rem; align-items: baseline; padding: .6rem 1rem; cursor: pointer; }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.method { min-width: 4.2rem; font-weight: 700; } .tag { margin-left: auto; color: var(--mute); }
:target { scroll-margin-top: 1rem; background: var(--soft); }
ul.plain { padding: 0; list-style: none; } ul.plain li { padding: .5rem 0; border-bottom: 1px solid var(--line); }
`;
