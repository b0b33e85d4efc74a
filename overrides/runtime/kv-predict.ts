/** `<kv-predict>`: the reader's guess, kept beside the answer that the build computed. */

/** Define the element. Without it the answer opens by hand and there is no box to guess in. */
export function definePredict(): void {
  class KvPredict extends HTMLElement {
    #disconnected: AbortController | undefined;

    connectedCallback(): void {
      this.#disconnected = new AbortController();
      const { signal } = this.#disconnected;
      this.addEventListener("submit", (event) => this.#compare(event), { signal });
    }

    disconnectedCallback(): void {
      this.#disconnected?.abort();
    }

    #compare(event: Event): void {
      event.preventDefault();
      const form = event.target as HTMLFormElement;
      const input = form.elements.namedItem("guess") as HTMLInputElement;
      const guess = input.value.trim();
      if (!guess) {
        input.focus();
        return;
      }
      const shown = this.querySelector(".kv-guess");
      if (shown) shown.textContent = `${guess} ${this.dataset.unit ?? ""}`;
      shown?.parentElement?.removeAttribute("hidden");
      const fold = this.querySelector("details");
      if (fold) fold.open = true;
      fold?.querySelector("summary")?.focus();
    }
  }

  if (!customElements.get("kv-predict")) customElements.define("kv-predict", KvPredict);
}
