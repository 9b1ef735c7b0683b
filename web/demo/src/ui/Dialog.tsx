import { useId, useLayoutEffect, useRef, type ReactNode } from "react";

import { Icon } from "./Icon";

/** The open dialogs, the top one last. */
const dialogs: HTMLElement[] = [];
const listeners = new Set<() => void>();
const changed = () => listeners.forEach((listener) => listener());
export const topDialog = () => dialogs.at(-1) ?? null;
export const onDialogs = (listener: () => void) => (listeners.add(listener), () => void listeners.delete(listener));

interface Props {
  title: string;
  /** A question that has to be answered. */
  alert?: boolean;
  close: () => void;
  children: ReactNode;
}

/**
 * A dialog that keeps the keyboard focus until it is closed (by its button, Escape, or a click outside), and gives it back to where
 * it was.
 */
export function Dialog({ title, alert, close, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const content = useId();
  useLayoutEffect(() => {
    const element = dialog.current!;
    element.showModal();
    dialogs.push(element);
    changed();
    return () => {
      dialogs.splice(dialogs.indexOf(element), 1);
      changed();
      element.close();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      role={alert ? "alertdialog" : undefined}
      aria-labelledby={heading}
      aria-describedby={alert ? content : undefined}
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div className="dialog" id={content}>
        <header>
          <h2 id={heading}>{title}</h2>
          {!alert && <button className="icon" aria-label="Close" onClick={close}><Icon name="close" /></button>}
        </header>
        {children}
      </div>
    </dialog>
  );
}
