// A lesson's cell may grow: let the code of a slide shrink until the slide fits.
const LEAST = 14; // px
const WRAP = 19; // px: rather than smaller than that, long lines of output are broken
const FOOT = 40; // px at the bottom, where the number stands

function tooWide(slide) {
  return [...slide.querySelectorAll("pre")].some(
    (block) => block.scrollWidth > block.clientWidth,
  );
}

function tooHigh(slide) {
  const shown = [...slide.children].filter((child) => child.offsetHeight);
  const ends = shown.map((child) => child.offsetTop + child.offsetHeight);
  return Math.max(...ends) > slide.clientHeight - FOOT;
}

function shrink(slide, least, overflows) {
  let size = parseFloat(getComputedStyle(slide).getPropertyValue("--code"));
  while (size > least && overflows(slide)) {
    size -= 1;
    slide.style.setProperty("--code", `${size}px`);
  }
}

function fit(slide) {
  if (!slide || slide.classList.contains("stack")) return;
  shrink(slide, WRAP, tooWide);
  slide.classList.toggle("wrap", tooWide(slide));
  shrink(slide, LEAST, (it) => tooWide(it) || tooHigh(it));
}

Reveal.on("ready", (event) => fit(event.currentSlide));
Reveal.on("slidechanged", (event) => fit(event.currentSlide));
Reveal.on("pdf-ready", () =>
  document.querySelectorAll(".pdf-page > section").forEach(fit),
);
