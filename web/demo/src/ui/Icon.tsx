/** Icons of 24 by 24, in the text's colour. */
const PATHS = {
  again: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  at: "M16 8v5a3 3 0 0 0 5-2v0a9 9 0 1 0-4 8M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0",
  back: "M15 5l-7 7 7 7",
  check: "M4 12l5 5L20 6",
  chevron: "M9 5l7 7-7 7",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4L14.5 7",
  clock: "M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0",
  close: "M6 6l12 12M18 6L6 18",
  down: "M6 9l6 6 6-6",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  exit: "M14 4H6a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h8M17 8l4 4-4 4M21 12H10",
  eye: "M2 12s3.5-6.5 10-6.5S22 12 22 12s-3.5 6.5-10 6.5S2 12 2 12M12 14.7a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4",
  file: "M14 3H7a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2V8zM14 3v5h5",
  group: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M2 20c0-4 3-6 7-6s7 2 7 6M16 4.5a3.5 3.5 0 0 1 0 6M18 14.5c2.5.8 4 2.7 4 5.5",
  moon: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5",
  more: "M12 5v.6M12 11.7v.6M12 18.4v.6",
  mute: "M4 4l16 16M9 5.5A5 5 0 0 1 17 9.5c0 2 .3 3.5.8 4.7M7 9.5c0 4-2 5.5-2 6.5h11M10 19a2.2 2.2 0 0 0 4 0",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM13.5 7.5l3 3",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v6",
  reply: "M10 6l-6 5 6 5v-3.5c5 0 8 1.5 10 4.5 0-6-4-8.5-10-8.5z",
  send: "M4 4l17 8-17 8 3-8zM7 12h7",
  stack: "M12 3l9 5-9 5-9-5zM3 12.5l9 5 9-5M3 17l9 5 9-5",
  sun: "M12 16.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg className="drawing" viewBox="0 0 24 24" aria-hidden="true"><path d={PATHS[name]} /></svg>
);
