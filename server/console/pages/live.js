// Follows what changes: the main part of the page is fetched anew, unless somebody is writing in it.
"use strict";
const source = new EventSource("live" + location.search);
source.addEventListener("changed", async () => {
  const main = document.getElementById("main");
  if (main.contains(document.activeElement) && document.activeElement !== main) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  main.replaceWith(page.getElementById("main"));
});
