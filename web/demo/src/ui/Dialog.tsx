import { useEffect, useId, useRef, type ReactNode } from "react";

import { Icon } from "./Icon";

/** A dialog that keeps the keyboard focus until it is closed: by its button, Escape, or a click outside. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={heading}
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div className="dialog">
        <header>
          <h2 id={heading}>{title}</h2>
          <button className="icon" aria-label="Close" onClick={close}><Icon name="close" /></button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
