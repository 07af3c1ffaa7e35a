// A lesson's cell may grow: let the code of a slide shrink until the slide fits.
const LEAST = 14; // px

function overflows(slide) {
  const inside = [...slide.querySelectorAll("pre")];
  return (
    slide.scrollHeight > slide.clientHeight ||
    slide.scrollWidth > slide.clientWidth ||
    inside.some((block) => block.scrollWidth > block.clientWidth)
  );
}

function fit(slide) {
  if (!slide || slide.classList.contains("stack")) return;
  let size = parseFloat(getComputedStyle(slide).getPropertyValue("--code"));
  while (size > LEAST && overflows(slide)) {
    size -= 1;
    slide.style.setProperty("--code", `${size}px`);
  }
}

Reveal.on("ready", (event) => fit(event.currentSlide));
Reveal.on("slidechanged", (event) => fit(event.currentSlide));
Reveal.on("pdf-ready", () =>
  document.querySelectorAll(".pdf-page > section").forEach(fit),
);
