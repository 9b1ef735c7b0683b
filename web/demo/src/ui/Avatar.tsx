import type { CSSProperties } from "react";

import { hueOf, initials } from "./format";
import { Icon } from "./Icon";

/** Initials, by the style sheet (they are no text that belongs to a name), in a colour of its own; groups and nested lists have a sign instead. */
export function Avatar({ id, name, small }: { id: string; name: string; small?: boolean }) {
  const sign = id.startsWith("g_") ? "group" : id.startsWith("b_") ? "stack" : null;
  return (
    <span className={small ? "avatar small" : "avatar"} style={{ "--hue": hueOf(id) } as CSSProperties} data-initials={sign ? "" : initials(name)} aria-hidden="true">
      {sign && <Icon name={sign} />}
    </span>
  );
}
