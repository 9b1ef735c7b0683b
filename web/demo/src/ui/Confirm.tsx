import { Dialog } from "./Dialog";

export interface Question {
  /** The question, with the object of the action: "Leave Book club?" */
  title: string;
  /** The consequences. */
  text: string;
  /** The label of the button that confirms. */
  verb: string;
}

/** Asks before an action that cannot be undone. Escape, and a click outside, mean no. */
export function Confirm({ question, answer }: { question: Question; answer: (yes: boolean) => void }) {
  return (
    <Dialog title={question.title} alert close={() => answer(false)}>
      <p>{question.text}</p>
      <div className="dialog-buttons">
        <button className="button quiet" autoFocus onClick={() => answer(false)}>Cancel</button>
        <button className="button destructive" onClick={() => answer(true)}>{question.verb}</button>
      </div>
    </Dialog>
  );
}
