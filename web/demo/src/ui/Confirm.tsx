import { Dialog } from "./Dialog";

export interface Question {
  /** Asks, and names what it is about: "Leave Book club?" */
  title: string;
  /** The consequences. */
  text: string;
  /** The button that does it. */
  verb: string;
}

/** Asks before something that cannot be undone. Escape, and a click outside, mean no. */
export function Confirm({ question, answer }: { question: Question; answer: (yes: boolean) => void }) {
  return (
    <Dialog title={question.title} alert close={() => answer(false)}>
      <p>{question.text}</p>
      <div className="answers">
        <button className="button quiet" autoFocus onClick={() => answer(false)}>Cancel</button>
        <button className="button destructive" onClick={() => answer(true)}>{question.verb}</button>
      </div>
    </Dialog>
  );
}
