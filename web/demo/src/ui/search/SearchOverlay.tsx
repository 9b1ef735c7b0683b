import { useEffect } from "react";

import { openSearchDialog, useEntry } from "../route";
import { isShortcut } from "./buttons";
import { SearchDialog } from "./SearchDialog";

/** Opens the search dialog with its keys, and shows it while it is the current entry of the browser's history. */
export function SearchOverlay() {
  const entry = useEntry();
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (!isShortcut(event) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      openSearchDialog();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
  return entry.search ? <SearchDialog /> : null;
}
