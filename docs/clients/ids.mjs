const hex = (number, digits) => number.toString(16).toUpperCase().padStart(digits, "0");
const byCodePoint = (id) => Array.from(id, (character) => hex(character.codePointAt(0), 6)).join("");
const encode = (id) => Array.from(new TextEncoder().encode(id), (byte) => {
  const character = String.fromCharCode(byte);
  return /[A-Za-z0-9.@-]/.test(character) ? character : `%${hex(byte, 2)}`;
}).join("");

// Returns the id of the private conversation of two users, also before its first message.
export function privateConversationId(userId, otherId, subBiz) {
  const [first, second] = byCodePoint(userId) < byCodePoint(otherId) ? [userId, otherId] : [otherId, userId];
  return `p_${encode(first)}_${encode(second)}${subBiz ? `~${subBiz}` : ""}`;
}
