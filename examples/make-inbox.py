#!/usr/bin/env python3
"""Makes the PDFs, the scans and the picture of examples/inbox from the texts in examples/inbox-pages.

Run by hand; what it makes is checked in. It needs pdftoppm (poppler-utils) and fonts with the measures of
Helvetica (fonts-urw-base35), and no Python package. The same versions of these make the same bytes.
"""

import random
import re
import subprocess
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES, INBOX = HERE / "inbox-pages", HERE / "inbox"

WIDTH, HEIGHT, MARGIN = 595, 842, 72  # A4, in points
BODY, LEADING = 11, 15
HEADINGS = {1: 20, 2: 14}

# Widths of Helvetica from space to tilde, in thousandths of its size.
WIDTHS = [int(width) for width in """
278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 584
584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 667 667
611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500
722 500 500 500 334 260 334 584""".split()]


def measure(text: str, size: float) -> float:
    return sum(WIDTHS[ord(c) - 32] for c in text) * size / 1000


def wrapped(text: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


class Page:
    """What is drawn on one page, from the top to the bottom."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.y = HEIGHT - MARGIN

    def text(self, x: float, text: str, size: float, font: str) -> None:
        shown = re.sub(r"([\\()])", r"\\\1", text)
        self.drawn.append(f"BT /{font} {size} Tf {x:.1f} {self.y:.1f} Td ({shown}) Tj ET")

    def block(self, block: str, scale: float) -> None:
        lines = block.splitlines()
        heading = re.match(r"(#+) (.*)", block)
        if heading:
            size = HEADINGS[len(heading[1])] * scale
            self.y -= size
            self.text(MARGIN, heading[2], size, "B")
            self.y -= size * 0.6
        elif lines[0].startswith("|"):
            rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "--" not in line]
            for nth, row in enumerate(rows):
                self.y -= LEADING * scale
                for column, cell in enumerate(row):
                    x = MARGIN + column * (WIDTH - 2 * MARGIN) / len(row)
                    self.text(x, cell, BODY * scale, "F" if nth else "B")
            self.y -= LEADING * scale
        else:
            for line in wrapped(" ".join(lines), WIDTH - 2 * MARGIN, BODY * scale):
                self.y -= LEADING * scale
                self.text(MARGIN, line, BODY * scale, "F")
            self.y -= LEADING * scale * 0.7
        assert self.y > MARGIN, "a page is full"


def drawn(text: str, scale: float = 1.0) -> bytes:
    page = Page()
    for block in re.split(r"\n\n+", text.strip()):
        page.block(block, scale)
    return "\n".join(page.drawn).encode("ascii")


def pdf(objects: list[bytes]) -> bytes:
    """A file of numbered objects, of which the first is the catalog."""
    out, places = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    xref = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, xref)
    return bytes(out)


def stream(head: bytes, body: bytes) -> bytes:
    packed = zlib.compress(body, 9)
    return b"<< %s /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (head, len(packed), packed)


def document(pages: list[tuple[bytes, bytes]], more: list[bytes]) -> bytes:
    """A PDF of pages, each with its resources and what is drawn. `more` are the objects from number 3 on."""
    first = 3 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * nth) for nth in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids),
        *more,
    ]
    for nth, (resources, content) in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Resources << %s >> /Contents %d 0 R >>"
            % (WIDTH, HEIGHT, resources, first + 2 * nth + 1)
        )
        objects.append(stream(b"", content))
    return pdf(objects)


def born_digital(texts: list[str], scale: float = 1.0) -> bytes:
    fonts = [
        b"<< /Type /Font /Subtype /Type1 /BaseFont /%s /Encoding /WinAnsiEncoding >>" % name
        for name in (b"Helvetica", b"Helvetica-Bold")
    ]
    return document([(b"/Font << /F 3 0 R /B 4 0 R >>", drawn(text, scale)) for text in texts], fonts)


def raster(content: bytes, dpi: int) -> tuple[int, int, bytes]:
    """The first page of a PDF, as bytes of grey."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.pdf"
        source.write_bytes(content)
        command = ["pdftoppm", "-gray", "-r", str(dpi), "-f", "1", "-l", "1", str(source)]
        picture = subprocess.run(command, check=True, capture_output=True).stdout
    kind, size, most, grey = picture.split(b"\n", 3)
    assert (kind, most) == (b"P5", b"255"), "pdftoppm gives grey of eight bits"
    width, height = map(int, size.split())
    return width, height, grey


def scanned(width: int, height: int, grey: bytes, seed: int) -> bytes:
    """What a scanner in need of cleaning makes of a page, in black and white: ragged edges and specks."""
    chance = random.Random(seed)
    rows = []
    for y in range(height):
        row = bytearray((width + 7) // 8)
        shift = y // 400  # the sheet lies a little askew
        for x in range(width):
            shade = grey[y * width + x - shift] if x >= shift else 255
            if 60 < shade < 200:
                shade += chance.randrange(-50, 51)
            if shade >= 128:
                row[x >> 3] |= 128 >> (x & 7)
        rows.append(row)
    for _ in range(width * height // 5000):
        x, y = chance.randrange(width), chance.randrange(height)
        rows[y][x >> 3] ^= 128 >> (x & 7)
    return b"".join(rows)


def scan(texts: list[str], dpi: int, seed: int) -> bytes:
    images, pages = [], []
    for nth, text in enumerate(texts):
        width, height, grey = raster(born_digital([text], 1.1), dpi)
        head = b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 1"
        images.append(stream(head % (width, height), scanned(width, height, grey, seed + nth)))
        resources = b"/XObject << /I %d 0 R >>" % (3 + nth)
        pages.append((resources, b"q %d 0 0 %d 0 0 cm /I Do Q" % (WIDTH, HEIGHT)))
    return document(pages, images)


def png(text: str, dpi: int) -> bytes:
    width, height, grey = raster(born_digital([text], 1.4), dpi)
    height = height * 2 // 5
    rows = b"".join(b"\0" + grey[y * width : (y + 1) * width] for y in range(height))

    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4)

    head = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 0, 0, 0, 0])
    dots = round(dpi / 0.0254).to_bytes(4) * 2 + b"\1"
    body = chunk(b"IHDR", head) + chunk(b"pHYs", dots) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def texts(name: str) -> list[str]:
    return (PAGES / f"{name}.md").read_text().split("<!-- page -->\n")


def main() -> None:
    made = {
        name: born_digital(texts(name))
        for name in ("beekeeping-year.pdf", "lighthouse-handbook.pdf", "sourdough-trials.pdf")
    }
    made["scan-tram-minutes.pdf"] = scan(texts("scan-tram-minutes.pdf"), 200, 7)
    made["scan-well-survey.pdf"] = scan(texts("scan-well-survey.pdf"), 200, 11)
    made["notice-board.png"] = png(texts("notice-board.png")[0], 150)
    whole = made["beekeeping-year.pdf"]
    made["corrupt-ledger.pdf"] = whole[: len(whole) // 2]
    for name, content in made.items():
        (INBOX / name).write_bytes(content)
        print(f"{len(content):>8} {name}")


if __name__ == "__main__":
    main()
