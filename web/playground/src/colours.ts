// The project's colours, given to GraphiQL, which wants parts of HSL, and to its editors, which want #rrggbb.

import css from "../../demo/src/ui/colours.css?raw";

export type Theme = "light" | "dark";
type Palette = Record<string, string>;

const [light, dark] = css.split(':root[data-theme="dark"]').map(colours) as [Palette, Palette];
const PALETTES: Record<Theme, Palette> = { light, dark };

/** GraphiQL's names of colours, and ours. */
const NAMES = {
  base: "panel",
  neutral: "text",
  primary: "accent",
  secondary: "link",
  tertiary: "accent",
  info: "link",
  success: "accent",
  warning: "on-warn",
  error: "danger",
};

/** GraphiQL's variables, as a style of the whole page. */
export function graphiqlColours(theme: Theme): Record<string, string> {
  const entries = Object.entries(NAMES).map(([name, ours]) => [`--graphiql-${name}`, hsl(PALETTES[theme][ours]!)]);
  return Object.fromEntries(entries) as Record<string, string>;
}

/** A theme of the editors. */
export function editorTheme(theme: Theme) {
  const { panel, "panel-2": raised, text, "text-2": soft, accent, link, "on-warn": brown, danger, chosen, line } = PALETTES[theme];
  const rules = { comment: soft, keyword: accent, "key.identifier": text, "argument.identifier": link, "type.identifier": brown };
  const json = { "string.key": link, "string.value": accent, string: accent, number: brown, "keyword.json": brown };
  return {
    base: theme === "dark" ? ("vs-dark" as const) : ("vs" as const),
    inherit: true,
    rules: [...of(rules, ".gql"), ...of({ string: danger, number: brown }, ".gql"), ...of(json, ".json"), { token: "", foreground: text!.slice(1) }],
    colors: {
      "editor.background": "#ffffff00",
      "editor.foreground": text!,
      "editorLineNumber.foreground": soft!,
      "editorLineNumber.activeForeground": text!,
      "editorLineNumber.dimmedForeground": soft!,
      "editorCursor.foreground": accent!,
      "scrollbar.shadow": "#ffffff00",
      "textLink.foreground": link!,
      "textLink.activeForeground": link!,
      "editorLink.activeForeground": link!,
      "editorBracketHighlight.foreground1": soft!,
      "editorBracketHighlight.foreground2": link!,
      "editorBracketHighlight.foreground3": accent!,
      "editorHoverWidget.background": panel!,
      "editorHoverWidget.border": line!,
      "editorSuggestWidget.background": panel!,
      "editorSuggestWidget.selectedBackground": chosen!,
      "editorSuggestWidget.selectedForeground": text!,
      "editorSuggestWidget.highlightForeground": accent!,
      "editorSuggestWidget.focusHighlightForeground": accent!,
      "editorWidget.background": panel!,
      "editorWidget.resizeBorder": accent!,
      "list.hoverBackground": raised!,
      "list.highlightForeground": accent!,
      "list.focusHighlightForeground": accent!,
      "menu.background": panel!,
      "menu.selectionBackground": chosen!,
      "menu.selectionForeground": text!,
      "quickInput.background": panel!,
      "quickInputList.focusBackground": chosen!,
      "quickInputList.focusForeground": text!,
      "input.background": raised!,
      "toolbar.hoverBackground": raised!,
      "inputOption.hoverBackground": raised!,
      "pickerGroup.foreground": accent!,
      focusBorder: accent!,
    },
  };
}

function of(rules: Record<string, string | undefined>, suffix: string) {
  return Object.entries(rules).map(([token, colour]) => ({ token: token + suffix, foreground: colour!.slice(1) }));
}

function colours(block: string): Palette {
  const found = [...block.matchAll(/--([\w-]+): (#[0-9a-f]{3,6});/g)];
  return Object.fromEntries(found.map(([, name, colour]) => [name!, colour!.length > 4 ? colour! : colour!.replace(/[0-9a-f]/g, "$&$&")]));
}

/** "hue, saturation%, lightness%" of #rrggbb. */
function hsl(colour: string): string {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255) as [number, number, number];
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  const spread = most - least;
  const lightness = (most + least) / 2;
  const saturation = spread && spread / (1 - Math.abs(2 * lightness - 1));
  const sector =
    spread === 0 ? 0 : most === red ? (green - blue) / spread : most === green ? (blue - red) / spread + 2 : (red - green) / spread + 4;
  return `${((sector * 60 + 360) % 360).toFixed(1)}, ${(saturation * 100).toFixed(1)}%, ${(lightness * 100).toFixed(1)}%`;
}
