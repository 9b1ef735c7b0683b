import { NO_FILTERS } from "../../confab/search";
import { Icon } from "../Icon";
import { openSearchDialog, useEntry } from "../route";
import { useApp } from "../appContext";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

/** The keys that open the search. */
export const SHORTCUT = isMac ? "⌘K" : "Ctrl K";
export const isShortcut = (event: KeyboardEvent) => event.key.toLowerCase() === "k" && (isMac ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey;

/** In the list: looks like a field, and opens the dialog that has one. */
export function SearchButton() {
  return (
    <button className="search-button" onClick={openSearchDialog}>
      <Icon name="search" /> Search <kbd aria-hidden="true">{SHORTCUT}</kbd>
    </button>
  );
}

/** Searches the open conversation. */
export function SearchHere({ conversationId }: { conversationId: string }) {
  const { search } = useApp();
  const open = () => {
    search.change({ text: "", filters: { ...NO_FILTERS, conversationId } });
    openSearchDialog();
  };
  return <button className="icon" aria-label="Search in this conversation" title="Search in this conversation" onClick={open}><Icon name="search" /></button>;
}

/** On phones: to the list. After a result of the search was opened: to the results. */
export function BackButton({ leave }: { leave: () => void }) {
  if (useEntry().isResult) return <button className="icon back to-results" aria-label="Back to the results" title="Back to the results" onClick={() => history.back()}><Icon name="back" /></button>;
  return <button className="icon back" aria-label="Back" onClick={leave}><Icon name="back" /></button>;
}
