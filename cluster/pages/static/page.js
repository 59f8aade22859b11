// A page of the course in a separate browser tab.
import { follow, localise } from "./live.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", paint);
paint();
localise(document);
follow(document, () => location.href, () => true);
