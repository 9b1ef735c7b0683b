import type { CSSProperties } from "react";

import { hueOf, initials } from "./format";
import { Icon } from "./Icon";

/** Initials in a colour of their own, drawn by the style sheet because they are not part of the name; groups and nested lists have a symbol. */
export function Avatar({ id, name, small }: { id: string; name: string; small?: boolean }) {
  const sign = id.startsWith("g_") ? "group" : id.startsWith("b_") ? "stack" : null;
  return (
    <span className={small ? "avatar small" : "avatar"} style={{ "--hue": hueOf(id) } as CSSProperties} data-initials={sign ? "" : initials(name)} aria-hidden="true">
      {sign && <Icon name={sign} />}
    </span>
  );
}
