import { useState, type CSSProperties } from "react";

import { hueOf, initials } from "./format";
import { Icon } from "./Icon";
import { PresenceDot } from "./presence/PresenceDot";

interface Props {
  id: string;
  name: string;
  url?: string | null;
  /** A symbol instead of initials. */
  sign?: "group" | "stack" | "hash" | "reply" | undefined;
  small?: boolean;
  /** Shows the presence of the person with this id. */
  live?: boolean;
  /** Called with the address of a picture that cannot be loaded. */
  failed?: (url: string) => void;
}

/**
 * A picture from the web. Until it is loaded, and if it cannot be: initials in a colour of their own, drawn by the style sheet because
 * they are not part of the name, or a symbol.
 */
export function Avatar({ id, name, url, sign, small, live, failed }: Props) {
  const [loaded, setLoaded] = useState<string | null>(null);
  const [broken, setBroken] = useState<string | null>(null);
  const picture = url && /^https?:\/\//i.test(url) && url !== broken ? url : null;
  return (
    <span className={small ? "avatar small" : "avatar"} style={{ "--hue": hueOf(id) } as CSSProperties} data-initials={sign ? "" : initials(name)} aria-hidden="true">
      {sign && <Icon name={sign} />}
      {picture && (
        <img
          key={picture}
          className={loaded === picture ? "loaded" : undefined}
          src={picture}
          alt=""
          referrerPolicy="no-referrer"
          draggable={false}
          onLoad={() => setLoaded(picture)}
          onError={() => (setBroken(picture), failed?.(picture))}
        />
      )}
      {live && <PresenceDot userId={id} />}
    </span>
  );
}
