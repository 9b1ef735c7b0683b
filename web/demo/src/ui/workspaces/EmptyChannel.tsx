/** In a channel without messages: its topic, and what the user can do. */
export function EmptyChannel({ name, topic, mayWrite }: { name: string; topic: string | null; mayWrite: boolean }) {
  return (
    <>
      <b>This is the beginning of #{name}</b>
      {topic && <p>{topic}</p>}
      <p>{mayWrite ? "Write the first message below: everybody who follows the channel sees it." : "Nobody has written here yet. You can read what others write."}</p>
    </>
  );
}
