"""Pictures of a study's page, by headless Chromium: `python docs/gallery.py results/demo/report.html docs/images`.

Each picture shows some sections of the page, the rest hidden, on one ground and at one width; blank space below is cut off
and colours are reduced to a palette, which halves the files. The page itself is not changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TALLEST = 14_000  # pixels of the window; a section that is taller is cut
MARGIN = 24  # pixels of ground kept below what is shown
COLOURS = 128
SECONDS = 120


class GalleryError(Exception):
    """What a user can mend, in a sentence."""


@dataclass(frozen=True)
class Picture:
    """`sections` are ids of the page's, in its order; `height` cuts the picture, None shows all."""

    name: str
    sections: tuple[str, ...]
    width: int = 1100
    height: int | None = None
    dark: bool = False


PICTURES = (
    Picture("report", ("answer", "verdicts"), height=1000),
    Picture("verdicts", ("verdicts", "claims", "words"), height=2600),
    Picture("results", ("results",), height=2200),
    Picture("curves", ("loss",), height=3000),
    Picture("mechanism", ("mechanism",)),
    Picture("overhead", ("overhead", "equivalence")),
    Picture("run", ("cells", "provenance", "missing", "again"), height=2600),
    Picture("dark", ("answer", "verdicts"), height=1000, dark=True),
    Picture("phone", ("answer", "verdicts"), width=500, height=1400),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="a study's report.html")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", help="one picture's name")
    args = parser.parse_args()
    try:
        html = read_page(args.page)
        browser = find_browser()
        args.folder.mkdir(parents=True, exist_ok=True)
        for picture in PICTURES:
            if args.only in (None, picture.name) and shown_sections(html, picture):
                path = take(browser, html, picture, args.folder)
                print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    except GalleryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def read_page(path: Path) -> str:
    """The page's HTML; GalleryError where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise GalleryError(f"there is no {path}; make it first: snakemake --cores all {path}") from None


def find_browser() -> str:
    """The command of a Chromium, from CHROMIUM or by its usual names; GalleryError where there is none."""
    asked = os.environ.get("CHROMIUM")
    found = next((path for name in ([asked] if asked else BROWSERS) if (path := shutil.which(name))), None)
    if found is None:
        raise GalleryError(
            f"there is no {asked or 'Chromium'} here to take pictures with; install it (Debian: apt-get install chromium) "
            "or name one by CHROMIUM=/path/to/chromium"
        )
    return found


def shown_sections(html: str, picture: Picture) -> list[str]:
    """Those of the picture's sections that the page has; a study without claims has no verdicts."""
    return [section for section in picture.sections if f'id="{section}"' in html]


def only_sections(html: str, picture: Picture) -> str:
    """The page with nothing but the picture's sections shown, the first at its head."""
    ids = [f"#{section}" for section in shown_sections(html, picture)]
    style = (
        f"<style>nav, .skip, main > *:not({', '.join(ids)}) {{ display: none !important }} "
        f"{ids[0]} {{ margin-top: 0 !important; padding-top: 1rem !important; border-top: 0 !important }} "
        ".page { display: block !important; max-width: none !important } main { margin: 0 auto !important }</style>"
    )
    assert "</head>" in html
    return html.replace("</head>", style + "</head>", 1)


def take(browser: str, html: str, picture: Picture, folder: Path) -> Path:
    """Write one picture into `folder` and return its path; GalleryError where the browser fails."""
    target = folder / f"{picture.name}.png"
    with tempfile.TemporaryDirectory() as scratch:
        page, shot = Path(scratch) / "page.html", Path(scratch) / "shot.png"
        page.write_text(only_sections(html, picture), encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += [f"--user-data-dir={scratch}/profile", f"--window-size={picture.width},{picture.height or TALLEST}"]
        command += ["--blink-settings=preferredColorScheme=" + ("0" if picture.dark else "1")]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # which Chromium has only for other users than root
        command += [f"--screenshot={shot}", page.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise GalleryError(f"{browser} did not finish {picture.name} in {SECONDS} s") from None
        if not shot.exists():
            raise GalleryError(f"{browser} took no picture of {picture.name}: {done.stderr.strip()[-300:]}")
        with Image.open(shot) as image:
            cut(image.convert("RGB")).quantize(COLOURS).save(target, optimize=True)
    return target


def cut(image: Image.Image) -> Image.Image:
    """The picture without the empty ground at its foot."""
    ground = Image.new("RGB", image.size, image.getpixel((0, image.height - 1)))
    box = ImageChops.difference(image, ground).getbbox()
    return image if box is None else image.crop((0, 0, image.width, min(box[3] + MARGIN, image.height)))


if __name__ == "__main__":
    sys.exit(main())
