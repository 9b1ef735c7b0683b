import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";
import { createPortal } from "react-dom";

import { Icon, type IconName } from "./Icon";

export interface MenuItem {
  label: string;
  run: () => void;
  danger?: boolean;
}

interface Props {
  /** The name of the button and of the menu. */
  label: string;
  /** The button shows this text instead of the icon. */
  text?: string;
  icon?: IconName;
  items: MenuItem[];
  tabIndex?: number;
  disabled?: boolean;
}

/** A button and its menu, with the keyboard keys of menus. */
export function Menu({ label, text, icon = "more", items, tabIndex, disabled }: Props) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <>
      <button
        ref={button}
        className={text ? "button" : "icon menu-button"}
        disabled={disabled}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        tabIndex={tabIndex}
        onClick={(event) => (event.preventDefault(), setOpen(!open))}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown") return;
          event.preventDefault();
          event.stopPropagation();
          setOpen(true);
        }}
      >
        {text}{text ? <Icon name="down" /> : <Icon name={icon} />}
      </button>
      {open && createPortal(<Items label={label} items={items} at={button.current!.getBoundingClientRect()} close={close} />, button.current!.closest("dialog") ?? document.body)}
    </>
  );
}

function Items({ label, items, at, close }: { label: string; items: MenuItem[]; at: DOMRect; close: () => void }) {
  const list = useRef<HTMLDivElement>(null);
  const entries = () => [...list.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];

  useLayoutEffect(() => {
    const { width, height } = list.current!.getBoundingClientRect();
    const below = at.bottom + height + 8 < innerHeight;
    list.current!.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`;
    list.current!.style.left = `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`;
    entries()[0]?.focus();
  }, []);
  useEffect(() => {
    const outside = (event: Event) => !list.current?.contains(event.target as Node) && close();
    addEventListener("pointerdown", outside);
    addEventListener("resize", close);
    return () => (removeEventListener("pointerdown", outside), removeEventListener("resize", close));
  });

  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const all = entries();
    const now = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) (event.preventDefault(), all.at(to % all.length)?.focus());
    if (event.key === "Escape" || event.key === "Tab") (event.preventDefault(), close());
  };

  return (
    <div ref={list} className="menu" role="menu" aria-label={label} onKeyDown={onKeyDown}>
      {items.map((item) => (
        <button
          key={item.label}
          role="menuitem"
          tabIndex={-1}
          className={item.danger ? "danger" : undefined}
          onClick={(event) => (event.stopPropagation(), close(), item.run())}
        >
          {item.label}
        </button>
      ))}
    </div>
  );
}
