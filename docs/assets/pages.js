// A browser starts no worker for a page that is opened as a file, and without one the search finds nothing.
if (location.protocol === "file:") {
  for (const part of document.querySelectorAll(".md-search, [for=__search]")) part.remove();
}
