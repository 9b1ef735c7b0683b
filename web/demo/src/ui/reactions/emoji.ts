/** Emoji to choose from, with the words by which they are found. The first row is offered first. */
export interface Emoji {
  emoji: string;
  keywords: string;
}

const LIST = `
👍 thumbs up yes like agree|❤️ heart love|😂 laugh joy tears funny|🎉 party celebrate congratulations|😮 surprised wow|😢 sad cry|🙏 please thanks pray|✅ done check yes
😀 happy grin|😃 happy smile|😄 smile laugh|😁 grin teeth|😅 relief sweat|🤣 rolling laugh|🙂 smile|🙃 upside down|😉 wink|😊 blush smile|😇 angel innocent|🥰 love hearts
😍 heart eyes love|😘 kiss|😋 tasty yum|😜 tongue wink|🤪 crazy silly|🤔 thinking hmm|🤨 doubt eyebrow|😐 neutral|😏 smirk|🙄 eye roll|😬 grimace awkward|😌 relieved calm
😴 sleep tired|🤒 sick ill|🤯 mind blown|🥳 party birthday|😎 cool sunglasses|🤓 nerd|😕 confused|😟 worried|😳 flushed embarrassed|🥺 pleading|😱 scream fear|😡 angry
👎 thumbs down no dislike|👏 clap applause|🙌 hooray hands|👋 wave hello bye|👌 ok fine|✌️ peace victory|🤞 fingers crossed luck|🤝 handshake deal|💪 strong muscle|👀 eyes look see|🫡 salute|🤷 shrug
🔥 fire hot|✨ sparkles new|⭐ star|💯 hundred perfect|💡 idea light|🚀 rocket ship launch|🐛 bug|🎯 target goal|🏆 trophy win|🎂 cake birthday|☕ coffee|🍕 pizza
❌ no cross wrong|⚠️ warning|❓ question|❗ important|➕ plus one|⏳ wait hourglass|📌 pin|🔗 link|📎 file clip|🗓️ date calendar|🔒 lock|🆗 ok
🌞 sun|🌧️ rain|❄️ snow|🌈 rainbow|🌱 plant grow|🌲 tree forest|🏔️ mountain|🏖️ beach|🐶 dog|🐱 cat|🦄 unicorn|🐢 turtle slow`;

export const EMOJI: readonly Emoji[] = LIST.trim()
  .split(/[|\n]/)
  .map((entry) => {
    const space = entry.indexOf(" ");
    return { emoji: entry.slice(0, space), keywords: entry.slice(space + 1) };
  });

/** All emoji of which a word begins with each word of the text. */
export function findEmoji(text: string): readonly Emoji[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  return EMOJI.filter(({ emoji, keywords }) => wanted.every((each) => emoji === each || keywords.split(" ").some((word) => word.startsWith(each))));
}
