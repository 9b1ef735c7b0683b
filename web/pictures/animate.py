"""Makes an animation of the frames that take.mjs took. Needs Pillow.

python web/pictures/animate.py FOLDER/frames docs/demo.webp
"""

import json
import sys
from pathlib import Path

from PIL import Image, ImageChops

WIDTH = 900
LAST_MS = 2500

frames, target = Path(sys.argv[1]), Path(sys.argv[2])
times = json.loads((frames / "times.json").read_text())
pictures: list[Image.Image] = []
lengths: list[int] = []
for number, began in enumerate(times):
    picture = Image.open(frames / f"{number + 1:04}.png").convert("RGB")
    picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    length = times[number + 1] - began if number + 1 < len(times) else LAST_MS
    if pictures and ImageChops.difference(picture, pictures[-1]).getbbox() is None:
        lengths[-1] += length
    else:
        pictures.append(picture)
        # Pauses between two takes are left out.
        lengths.append(min(length, 400))
pictures[0].save(target, save_all=True, append_images=pictures[1:], duration=lengths, loop=0, quality=78, method=6)
print(f"{target}: {len(pictures)} pictures, {sum(lengths) / 1000:.1f} s, {target.stat().st_size // 1024} KiB")
