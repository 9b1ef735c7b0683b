import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";
import { createPortal } from "react-dom";

import { findEmoji } from "./emoji";

const COLUMNS = 8;

interface Props {
  /** The element next to which it opens. Its focus returns there. */
  at: HTMLElement;
  choose: (emoji: string) => void;
  close: () => void;
}

/** A window to choose an emoji: by its words, by the arrow keys, or with the pointer. */
export function EmojiPicker({ at, choose, close }: Props) {
  const [text, setText] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const found = findEmoji(text);

  useLayoutEffect(() => {
    const { width, height } = box.current!.getBoundingClientRect();
    const place = at.getBoundingClientRect();
    const top = place.top - height - 6;
    box.current!.style.top = `${Math.max(8, Math.min(top < 8 ? place.bottom + 6 : top, innerHeight - height - 8))}px`;
    box.current!.style.left = `${Math.max(8, Math.min(place.left - width / 2, innerWidth - width - 8))}px`;
  }, [at]);
  useEffect(() => {
    const outside = (event: Event) => !box.current?.contains(event.target as Node) && close();
    addEventListener("pointerdown", outside);
    addEventListener("resize", close);
    return () => (removeEventListener("pointerdown", outside), removeEventListener("resize", close));
  });

  const leave = () => (close(), at.focus());
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const all = [...box.current!.querySelectorAll<HTMLElement>(".emojis button")];
    const now = all.indexOf(document.activeElement as HTMLElement);
    const isInField = now < 0;
    if (event.key === "Escape") (event.preventDefault(), leave());
    if (event.key === "Enter" && isInField && found[0]) (event.preventDefault(), choose(found[0].emoji), leave());
    const step = { ArrowDown: isInField ? 1 : COLUMNS, ArrowUp: -COLUMNS, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined || (isInField && event.key !== "ArrowDown")) return;
    event.preventDefault();
    const to = now + step;
    if (to < 0) box.current!.querySelector("input")!.focus();
    else all[Math.min(to, all.length - 1)]?.focus();
  };

  return createPortal(
    <div ref={box} className="emoji-picker" role="dialog" aria-label="Choose an emoji" onKeyDown={onKeyDown}>
      <input type="search" aria-label="Find an emoji" placeholder="Find an emoji" value={text} autoFocus onChange={(event) => setText(event.target.value)} />
      <div className="emojis">
        {found.map(({ emoji, keywords }) => (
          <button key={emoji} title={keywords} aria-label={keywords} onClick={() => (choose(emoji), leave())}>{emoji}</button>
        ))}
      </div>
      {!found.length && <p className="hint" role="status">No emoji has this word</p>}
    </div>,
    at.closest("dialog") ?? document.body,
  );
}
