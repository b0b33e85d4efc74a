/** `<kv-widget>`: a picture made at build time, whose controls come alive with Python. */

import { announce } from "./announce";
import { prepareCharts, redraw } from "./chart-places";
import { FileTooLarge, asParams, setValues, showErrors, valuesOf } from "./form";
import type { Intent } from "./intent";
import type { Answer, Params } from "./messages";
import { morphContent } from "./morph";
import { Interrupted, type Runtime } from "./runtime";
import { showStatus } from "./status";

type Values = ReadonlyMap<string, string | File>;

/** Define the element; it stays static until this is called. */
export function defineWidget(runtime: Runtime, intent: Intent): void {
  class KvWidget extends HTMLElement {
    /** The newest values not yet shown: those asked for while another answer was awaited. */
    #wanted: Values | undefined;
    #asking = false;
    /** The values last asked for: `change` repeats what `input` has told. */
    #asked: Values | undefined;
    #disconnected: AbortController | undefined;

    connectedCallback(): void {
      this.#disconnected = new AbortController();
      const { signal } = this.#disconnected;
      const form = this.#form;
      if (form) {
        form.reset(); // a browser that kept old values would show them beside a picture of others
        for (const fields of form.querySelectorAll("fieldset")) fields.disabled = false;
      }
      this.addEventListener("input", () => this.#changed(), { signal });
      this.addEventListener("change", () => this.#changed(), { signal });
      this.addEventListener("submit", (event) => this.#submitted(event), { signal });
      this.addEventListener("reset", (event) => this.#reset(event), { signal });
      runtime.addEventListener("state", () => this.#follow(), { signal });
      runtime.addEventListener("progress", () => this.#showStatus(), { signal });
      if (document.querySelector("kv-widget") !== this) this.#status?.setAttribute("aria-live", "off");
      intent.watch(this);
      this.#follow();
    }

    disconnectedCallback(): void {
      intent.unwatch(this);
      this.#disconnected?.abort();
      this.#wanted = undefined;
    }

    get #form(): HTMLFormElement | null {
      return this.querySelector("form");
    }

    get #status(): HTMLElement | null {
      return this.querySelector<HTMLElement>(".kv-status");
    }

    #follow(): void {
      this.setAttribute("state", runtime.state === "idle" ? "static" : runtime.state);
      this.#showStatus();
      if (runtime.state === "live") void this.#askWanted();
    }

    #showStatus(): void {
      if (this.#status) showStatus(this.#status, runtime);
    }

    #changed(): void {
      if (!this.#form) return;
      const values = valuesOf(this.#form);
      if (!this.#wanted && this.#asked && sameValues(values, this.#asked)) return;
      this.#wanted = values;
      if (runtime.state === "idle") void runtime.start();
      void this.#askWanted();
    }

    #submitted(event: Event): void {
      event.preventDefault();
      this.#changed();
    }

    #reset(event: Event): void {
      if (!this.#form) return;
      event.preventDefault(); // a morph moves the form's own defaults; ours stay
      setValues(this.#form, JSON.parse(this.dataset.params ?? "{}") as Params);
      this.#changed();
    }

    /** Ask for the newest values until none wait; one question at a time, so answers keep order. */
    async #askWanted(): Promise<void> {
      if (this.#asking) return;
      this.#asking = true;
      try {
        while (this.#wanted && runtime.state === "live" && this.isConnected) {
          const values = this.#wanted;
          this.#wanted = undefined;
          this.#asked = values;
          await this.#ask(values);
        }
      } finally {
        this.#asking = false;
      }
    }

    async #ask(values: Values): Promise<void> {
      prepareCharts(this);
      try {
        const answer = await runtime.update(this.getAttribute("name") ?? "", await asParams(values));
        if (this.isConnected) this.#show(answer, values);
      } catch (error) {
        if (error instanceof Interrupted) this.#wanted ??= values;
        else this.#showErrors(messagesOf(error));
      }
    }

    #show(answer: Answer, values: Values): void {
      if (answer.html !== null) {
        morphContent(this, answer.html, values);
        void redraw(this);
        announce(answer.announce);
      }
      this.#showErrors(answer.errors);
      if (performance.getEntriesByName("kv:first-update").length === 0) {
        performance.mark("kv:first-update");
      }
    }

    #showErrors(errors: Readonly<Record<string, string>>): void {
      if (this.#form) showErrors(this.#form, errors);
      announce(Object.values(errors).join(" "));
    }
  }

  customElements.define("kv-widget", KvWidget);
}

function sameValues(some: Values, others: Values): boolean {
  return some.size === others.size && [...some].every(([name, value]) => others.get(name) === value);
}

function messagesOf(error: unknown): Record<string, string> {
  if (error instanceof FileTooLarge) return { [error.control]: error.message };
  console.error("kv: this change could not be drawn.", error);
  return { "*": "This change could not be drawn; the last picture stays. The console has the details." };
}
