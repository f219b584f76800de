"use strict"
// The page is asked for again and again, and what has changed of it is put in its place.
async function renew() {
  try {
    if (!document.hidden) {
      const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(5000)})
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main")
      if (!next) throw new Error("this is not the page")
      document.querySelector("main").replaceWith(next)
    }
    document.body.classList.remove("stale")
  } catch {
    document.body.classList.add("stale")
  }
  setTimeout(renew, 2000)
}
setTimeout(renew, 2000)
