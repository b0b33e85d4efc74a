/**
 * `<kv-playground>`: set-ups and a load that the reader describes, run in slices, looked at, taken away.
 *
 * A bundle of its own, fetched where the element stands. Everything is computed by
 * `kvdocs.playground.browser`; between two slices the worker hears whatever the reader wants.
 */

import type { Params } from "./messages";
import type { Tools } from "./playground-loader";
import type { Player } from "./player";

const MODULE = "kvdocs.playground.browser";
/** Our own time in one call: between two calls the worker listens. */
const SLICE_MS = 40;
const DRAW_MS = 350;
const TYPING_MS = 600;
const LARGEST_CONFIG = 1_000_000;

/** What `form` answers. */
interface Settled {
  readonly form: string;
  readonly sized: string | null;
  readonly errors: Params;
  readonly params: Params;
}

/** What `work`, `step` and `show` answer. */
interface Progress {
  readonly gone?: boolean;
  readonly error?: string;
  readonly share: number;
  readonly done: boolean;
  readonly last: number;
  readonly words: string;
  readonly html?: string;
  readonly command?: string;
  readonly code?: string;
  readonly announce?: string;
}

interface Reading {
  readonly error: string;
  readonly done: boolean;
  readonly share: number;
  readonly words?: string;
}

type Phase = "idle" | "running" | "paused" | "done";

const WORDS = {
  idle: "As built; press Run to make it yours",
  stays: "What was run when the site was built stays.",
  offersStart: true,
};

export function define(tools: Tools): void {
  const { runtime, intent, announce, LinkProblem } = tools;

  class KvPlayground extends HTMLElement {
    #session = 0;
    #phase: Phase = "idle";
    /** The values the picture is of. */
    #ran = "";
    #errors: Params = {};
    #player: Player | undefined;
    #typing = 0;
    /** Fields that were changed since the form was settled last. */
    readonly #changed = new Set<string>();
    #asking = Promise.resolve();
    /** The moment the reader wants to see, while another is drawn. */
    #wanted: number | undefined;
    #showing = false;
    #quarter = 0;
    /** Counts traces: one that is read while another is dropped is given up. */
    #reading = 0;
    #isReading = false;
    #disconnected: AbortController | undefined;

    connectedCallback(): void {
      this.#disconnected = new AbortController();
      const { signal } = this.#disconnected;
      for (const form of this.querySelectorAll("form")) form.reset();
      for (const field of this.querySelectorAll("fieldset, button")) field.removeAttribute("disabled");
      for (const link of this.querySelectorAll("kv-link")) link.replaceWith(document.createElement("kv-link"));
      this.#ran = keyOf(this.#params());
      this.#player = tools.Player.of(this, signal);
      this.addEventListener("input", (event) => this.#input(event), { signal });
      this.addEventListener("change", (event) => this.#change(event), { signal });
      this.addEventListener("click", (event) => this.#clicked(event), { signal });
      this.addEventListener("submit", (event) => this.#submitted(event), { signal });
      this.addEventListener("dragover", (event) => this.#dragged(event), { signal });
      this.addEventListener("dragleave", () => this.#markDrop(null), { signal });
      this.addEventListener("drop", (event) => this.#dropped(event), { signal });
      runtime.addEventListener("state", () => this.#follow(), { signal });
      runtime.addEventListener("progress", () => this.#showStatus(), { signal });
      intent.watch(this);
      this.#follow();
      this.#drawButtons();
    }

    disconnectedCallback(): void {
      intent.unwatch(this);
      this.#disconnected?.abort();
      this.#reading += 1;
      if (this.#session) this.#forget();
    }

    // The page ---------------------------------------------------------------------------------

    #place(name: string): HTMLElement {
      return this.querySelector<HTMLElement>(`[data-place=${name}]`) as HTMLElement;
    }

    get #form(): HTMLFormElement {
      return this.#place("form").querySelector("form") as HTMLFormElement;
    }

    #params(): Params {
      return JSON.parse(this.dataset.params ?? "{}") as Params;
    }

    #values(): Params {
      const texts = [...tools.valuesOf(this.#form)].filter(([, value]) => typeof value === "string");
      return Object.fromEntries(texts) as Params;
    }

    #follow(): void {
      this.setAttribute("state", runtime.state === "idle" ? "static" : runtime.state);
      this.#showStatus();
      if (runtime.state !== "live" && this.#session) this.#lost();
      if (runtime.state === "live") void this.#prepare();
    }

    /** Let Python import what the first answer needs. */
    async #prepare(): Promise<void> {
      await this.#call("form", JSON.stringify(this.#values()), "").catch(() => {});
    }

    #showStatus(): void {
      const place = this.querySelector<HTMLElement>(".kv-status");
      if (place) tools.showStatus(place, runtime, WORDS);
    }

    #tell(words: string, share?: number): void {
      const line = this.querySelector(".kv-pg-progress");
      if (line) line.textContent = words;
      const bar = this.querySelector("progress");
      if (bar && share !== undefined) bar.value = share;
    }

    #setPhase(phase: Phase): void {
      this.#phase = phase;
      this.toggleAttribute("running", phase === "running");
      this.#drawButtons();
    }

    /** What cannot be done now is marked and ignored, not disabled: the keyboard stays where it is. */
    #drawButtons(): void {
      const active = this.#phase === "running" || this.#phase === "paused";
      const able: Record<string, boolean> = {
        run: !this.#isReading,
        pause: active,
        step: this.#phase !== "done" && !this.#isReading,
        cancel: active || this.#isReading,
      };
      for (const button of this.querySelectorAll<HTMLElement>("[data-do]")) {
        const act = button.dataset.do ?? "";
        button.setAttribute("aria-disabled", String(!able[act]));
        if (act === "pause") button.textContent = this.#phase === "paused" ? "Continue" : "Pause";
        if (act === "run") button.textContent = this.#phase === "idle" ? "Run" : "Run anew";
      }
    }

    async #call<T>(name: string, ...args: (string | number | boolean)[]): Promise<T> {
      return await runtime.call<T>(MODULE, name, ...args);
    }

    async #up(): Promise<boolean> {
      if (runtime.state === "idle" || runtime.state === "failed") void runtime.start();
      return await tools.pythonUp(runtime);
    }

    // The form ---------------------------------------------------------------------------------

    #input(event: Event): void {
      const { target } = event;
      if (!(target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement)) return;
      if (target.name === "moment") {
        this.#scrub(Number(target.value));
        return;
      }
      if (target instanceof HTMLInputElement && target.dataset.sets) this.#follows(target);
      clearTimeout(this.#typing);
      const name = this.#fieldOf(target);
      if (name) this.#typing = window.setTimeout(() => void this.#settle(name), TYPING_MS);
    }

    #change(event: Event): void {
      const { target } = event;
      if (!(target instanceof Element)) return;
      if (target instanceof HTMLInputElement && target.type === "file") {
        const file = target.files?.[0];
        if (file) void this.#take(file, target.dataset.file ?? "");
        return;
      }
      const name = this.#fieldOf(target);
      if (!name) return;
      clearTimeout(this.#typing);
      void this.#settle(name);
    }

    /** The form's field that an element sets; "" for one of another form. */
    #fieldOf(target: Element): string {
      if (!this.#form.contains(target)) return "";
      const field = target as HTMLInputElement;
      return field.dataset.sets ?? field.name;
    }

    /** A slider sets the box beside it. */
    #follows(slider: HTMLInputElement): void {
      const box = this.#form.elements.namedItem(slider.dataset.sets ?? "");
      const value = slider.dataset.steps?.split(" ")[Number(slider.value)];
      if (box instanceof HTMLInputElement && value !== undefined) box.value = value;
      slider.setAttribute("aria-valuetext", value ?? "");
    }

    #submitted(event: Event): void {
      event.preventDefault();
      if (event.target === this.#form && !this.#isReading) void this.#run();
    }

    /** Let Python settle the form, one change after the other. */
    #settle(changed: string): Promise<void> {
      this.#changed.add(changed);
      const settled = this.#asking.then(() => (this.#changed.size > 0 ? this.#settleNow() : undefined));
      this.#asking = settled.catch(() => {});
      return this.#asking;
    }

    async #settleNow(): Promise<void> {
      if (!(await this.#up()) || !this.isConnected) return;
      const changed = [...this.#changed].join(" ");
      this.#changed.clear();
      const sent = tools.valuesOf(this.#form);
      try {
        this.#show(await this.#call<Settled>("form", JSON.stringify(this.#values()), changed), sent);
      } catch (error) {
        this.#failed(error, "The form could not be read; the console has the details.");
      }
    }

    #show(answer: Settled, sent: ReadonlyMap<string, string | File>): void {
      tools.morphContent(this.#place("form"), answer.form, sent);
      this.#correct(answer.params, sent);
      const sized = this.#place("sized");
      if (answer.sized !== null) tools.morphContent(sized, answer.sized, new Map());
      this.#showErrors(answer.errors);
      const stale = keyOf(answer.params) !== this.#ran;
      this.toggleAttribute("stale", stale);
      sized.hidden = !stale && Object.keys(answer.errors).length === 0;
      if (stale && this.#phase !== "running") {
        this.#tell("Changed since the last run: the picture below still shows that run. Press Run.", 0);
      }
    }

    /** A morph leaves the field in hand alone; what Python corrected in it is set unless it was changed since. */
    #correct(params: Params, sent: ReadonlyMap<string, string | File>): void {
      const now = tools.valuesOf(this.#form);
      const corrected = Object.entries(params).filter(([name, value]) => {
        return now.get(name) === sent.get(name) && now.get(name) !== value;
      });
      tools.setValues(this.#form, Object.fromEntries(corrected));
    }

    #showErrors(errors: Params): void {
      this.#errors = errors;
      tools.showErrors(this.#form, errors);
      for (const field of this.#form.querySelectorAll("[aria-invalid=true]")) {
        const fold = field.closest("details");
        if (fold) fold.open = true;
      }
      announce(Object.values(errors).join(" "));
    }

    #showError(name: string, message: string): void {
      this.#showErrors({ ...this.#errors, [name]: message });
    }

    // Running ----------------------------------------------------------------------------------

    #clicked(event: Event): void {
      const button = event.target instanceof Element ? event.target.closest<HTMLElement>("button") : null;
      if (!button || button.getAttribute("aria-disabled") === "true") return;
      if (button.dataset.export) void this.#export(button.dataset.export);
      switch (button.dataset.do) {
        case "pause":
          if (this.#phase === "paused") this.#goOn();
          else this.#pause();
          break;
        case "step":
          void this.#step();
          break;
        case "cancel":
          this.#cancel();
          break;
      }
    }

    async #run(): Promise<void> {
      this.#player?.pause();
      if (await this.#begin()) this.#goOn();
    }

    /** Begin a session with the form as it is; false when it cannot. */
    async #begin(): Promise<boolean> {
      clearTimeout(this.#typing);
      await this.#asking;
      if (!(await this.#up())) return false;
      this.#setPhase("idle");
      this.#tell("Starting …", 0);
      try {
        await this.#settleNow();
        const values = JSON.stringify(this.#values());
        const { session, errors } = await this.#call<{ session: number; errors: Params }>("start", values);
        if (!session) {
          this.#refused(errors);
          return false;
        }
        this.#session = session;
      } catch (error) {
        this.#failed(error, "The run could not start; the console has the details.");
        return false;
      }
      this.#ran = keyOf(this.#values());
      this.#quarter = 0;
      this.removeAttribute("stale");
      this.#place("sized").hidden = true;
      this.#setPhase("paused");
      return true;
    }

    #refused(errors: Params): void {
      this.#session = 0;
      this.#showErrors(errors);
      this.#tell("Nothing was run: see the message at the field. The picture below still shows the last run.", 0);
      this.#form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
    }

    #goOn(): void {
      if (!this.#session) return;
      this.#setPhase("running");
      announce("Running.");
      void this.#pump(this.#session);
    }

    async #pump(session: number): Promise<void> {
      let drawn = performance.now();
      const isOn = (): boolean => this.#session === session && this.#phase === "running" && this.isConnected;
      try {
        while (isOn()) {
          const draw = performance.now() - drawn > DRAW_MS;
          const progress = await this.#call<Progress>("work", session, SLICE_MS, draw);
          if (this.#session !== session) return;
          const goesOn = this.#takeOver(progress);
          this.#draw(progress);
          if (!goesOn) return;
          if (draw) drawn = performance.now();
        }
        if (this.#session === session && this.#phase === "paused") await this.#showMoment(-1);
      } catch (error) {
        this.#failed(error, "The run stopped; the console has the details.");
      }
    }

    /** Show how far a session has come; false when there is nothing more to run. */
    #takeOver(progress: Progress): boolean {
      if (progress.gone) {
        this.#lost();
        return false;
      }
      if (progress.error) {
        this.#session = 0;
        this.#setPhase("idle");
        this.#tell(progress.error);
        announce(progress.error);
        return false;
      }
      this.#tell(progress.words, progress.share);
      const quarter = Math.floor(progress.share * 4);
      if (progress.done && this.#phase !== "done") {
        this.#setPhase("done");
        announce(`Done: ${progress.words}.`);
      } else if (quarter > this.#quarter) {
        announce(`${quarter * 25}% of the requests have ended.`);
      }
      this.#quarter = quarter;
      return !progress.done;
    }

    #draw(progress: Progress): void {
      if (progress.html === undefined) return;
      const player = this.#place("result").querySelector("form");
      const isAhead = this.#wanted !== undefined; // the reader has moved the slider on
      const sent = player && !isAhead ? tools.valuesOf(player) : new Map<string, string | File>();
      tools.morphContent(this.#place("result"), progress.html, sent);
      for (const fields of this.#place("result").querySelectorAll("fieldset")) fields.disabled = false;
      const slider = this.querySelector<HTMLInputElement>("input[name=moment]");
      if (slider && !isAhead) slider.value = slider.getAttribute("value") ?? "0"; // also while it has the focus
      for (const place of this.querySelectorAll<HTMLElement>("[data-code]")) {
        place.textContent = (place.dataset.code === "code" ? progress.code : progress.command) ?? "";
      }
      if (this.#phase !== "running" && progress.announce) this.#player?.say(progress.announce);
    }

    #pause(): void {
      this.#setPhase("paused");
      announce("Paused.");
    }

    async #step(): Promise<void> {
      if (this.#phase === "running") this.#pause();
      if (!this.#session && !(await this.#begin())) return;
      try {
        const progress = await this.#call<Progress>("step", this.#session);
        this.#takeOver(progress);
        this.#draw(progress);
      } catch (error) {
        this.#failed(error, "The step could not be taken; the console has the details.");
      }
    }

    /** At once for the reader; the worker hears it after its slice. */
    #cancel(): void {
      if (this.#isReading) {
        this.#reading += 1;
        this.#stopReading("Cancelled: the trace was not read.");
        void this.#call("drop_trace").catch(() => {});
        return;
      }
      this.#forget();
      this.#setPhase("idle");
      this.#tell("Cancelled. The picture is of the moment it had come to.", 0);
      announce("Cancelled.");
    }

    #forget(): void {
      const session = this.#session;
      this.#session = 0;
      if (runtime.state === "live") void this.#call("drop", session).catch(() => {});
    }

    #lost(): void {
      this.#session = 0;
      this.#setPhase("idle");
      this.#tell("Python was started anew, and the run is gone. Press Run.", 0);
    }

    #failed(error: unknown, words: string): void {
      this.#setPhase("idle");
      if (error instanceof tools.Interrupted) {
        this.#lost();
        return;
      }
      console.error("kv: the playground failed.", error);
      this.#session = 0;
      this.#tell(words, 0);
      announce(words);
    }

    // Looking ----------------------------------------------------------------------------------

    #scrub(moment: number): void {
      if (this.#phase === "running") this.#pause();
      this.#wanted = moment;
      if (!this.#showing) void this.#showWanted();
    }

    async #showWanted(): Promise<void> {
      this.#showing = true;
      try {
        if (!this.#session && !(await this.#runWhatIsShown())) return;
        while (this.#wanted !== undefined) {
          const moment = this.#wanted;
          this.#wanted = undefined;
          await this.#showMoment(moment);
        }
      } catch (error) {
        this.#failed(error, "This moment could not be drawn; the console has the details.");
      } finally {
        this.#wanted = undefined;
        this.#showing = false;
        this.#player?.shown();
      }
    }

    /** The picture as built has no session behind it: run the same, to its end. */
    async #runWhatIsShown(): Promise<boolean> {
      const wanted = this.#wanted;
      const isOfForm = keyOf(this.#values()) === this.#ran;
      if (!isOfForm || !(await this.#begin())) {
        if (!isOfForm) this.#tell("There is no run to look at: press Run.");
        return false;
      }
      let progress = await this.#call<Progress>("work", this.#session, SLICE_MS, false);
      while (!progress.done && this.#session && !progress.gone && !progress.error) {
        this.#tell(progress.words, progress.share);
        progress = await this.#call<Progress>("work", this.#session, SLICE_MS, false);
      }
      this.#wanted ??= wanted;
      if (!this.#session) return false;
      this.#takeOver(progress);
      return progress.done;
    }

    async #showMoment(moment: number): Promise<void> {
      const at = moment < 0 ? Number.MAX_SAFE_INTEGER : moment;
      const progress = await this.#call<Progress>("show", this.#session, at);
      if (progress.gone) this.#lost();
      else this.#draw(progress);
    }

    // Files ------------------------------------------------------------------------------------

    #dragged(event: DragEvent): void {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      this.#markDrop(event.target);
    }

    #markDrop(target: EventTarget | null): void {
      const over = target instanceof Element ? target.closest("[data-drop]") : null;
      for (const place of this.querySelectorAll("[data-drop]")) place.classList.toggle("kv-pg-over", place === over);
    }

    #dropped(event: DragEvent): void {
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      event.preventDefault();
      this.#markDrop(null);
      const over = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-drop]") : null;
      void this.#take(file, over?.dataset.drop ?? (/\.json$/i.test(file.name) ? "a_config" : "trace"));
    }

    async #take(file: File, name: string): Promise<void> {
      if (name === "trace") await this.#readTrace(file);
      else await this.#readConfig(file, name);
    }

    async #readConfig(file: File, name: string): Promise<void> {
      if (file.size > LARGEST_CONFIG) {
        const size = (file.size / 1e6).toFixed(1);
        this.#showError(name, `${file.name} has ${size} MB, which no config.json has. Nothing was changed.`);
        return;
      }
      const box = this.#form.elements.namedItem(name);
      if (box instanceof HTMLTextAreaElement) box.value = await file.text();
      await this.#settle(name);
    }

    async #readTrace(file: File): Promise<void> {
      if (!(await this.#up())) return;
      const source = this.#form.elements.namedItem("source");
      if (source instanceof HTMLSelectElement) source.value = "trace";
      const mine = ++this.#reading;
      this.#isReading = true;
      this.#drawButtons();
      this.#tell(`Reading ${file.name} …`, 0);
      try {
        const { error } = await this.#call<{ error: string }>("open_trace", file.name, file.size);
        const read = error ? { error, done: true, share: 0 } : await this.#feed(file, mine);
        if (read) await this.#haveRead(read);
      } catch (error) {
        const words =
          error instanceof TypeError
            ? `${file.name} is not text in UTF-8, so it was not read. The form is as it was.`
            : `${file.name} could not be read; the console has the details.`;
        if (!(error instanceof TypeError)) console.error("kv: a trace was not read.", error);
        if (mine === this.#reading) await this.#haveRead({ error: words, done: true, share: 0 });
      }
    }

    /** Hand a file to Python piece by piece, then let it read in slices; nothing when given up. */
    async #feed(file: File, mine: number): Promise<Reading | undefined> {
      const decoder = new TextDecoder("utf-8", { fatal: true });
      const pieces = file.stream().getReader();
      let done = 0;
      for (let piece = await pieces.read(); !piece.done; piece = await pieces.read()) {
        await this.#call("add_text", decoder.decode(piece.value, { stream: true }));
        if (mine !== this.#reading) {
          await pieces.cancel();
          return undefined;
        }
        done += piece.value.byteLength;
        this.#tell(`Fetching ${file.name}: ${(done / 1e6).toFixed(1)} MB`, (0.3 * done) / file.size);
      }
      await this.#call("add_text", decoder.decode());
      for (;;) {
        const read = await this.#call<Reading>("read_on", SLICE_MS);
        if (mine !== this.#reading) return undefined;
        if (read.done) return read;
        this.#tell(`Reading ${file.name}: ${read.words}`, 0.3 + 0.7 * read.share);
      }
    }

    async #haveRead(read: Reading): Promise<void> {
      const words = read.error || (read.words ?? "");
      this.#stopReading(words);
      await this.#settle("source");
      if (read.error) this.#showError("trace_file", read.error);
      else this.#tell(`${words} Press Run.`, 0);
    }

    #stopReading(words: string): void {
      this.#isReading = false;
      this.#drawButtons();
      this.#tell(words, 0);
      announce(words);
    }

    // Taking away ------------------------------------------------------------------------------

    async #export(what: string): Promise<void> {
      const [kind = "", form] = what.split(":");
      try {
        if (!this.#session && !(await this.#runWhatIsShown())) return;
        const file = await this.#call<{ name: string; type: string; text: string; gone?: boolean }>(
          "export",
          this.#session,
          kind,
        );
        if (file.gone) this.#lost();
        else if (form === "png") save(file.name.replace(/svg$/, "png"), await drawn(file.text));
        else save(file.name, new Blob([file.text], { type: file.type }));
        announce(`${file.name} is saved.`);
      } catch (error) {
        this.#failed(error, "This could not be saved; the console has the details.");
      }
    }

    // Links ------------------------------------------------------------------------------------

    sharedState(): unknown {
      return { params: this.#values() };
    }

    /** Show a link's set-ups and load, and run them. */
    async openState(shared: unknown): Promise<void> {
      const params = tools.textsIn(shared, "params");
      if (!(await this.#up())) {
        throw new LinkProblem("Python did not start, so the playground stands as it was built and not as in the link.");
      }
      const answer = await this.#call<Settled>("form", JSON.stringify(params), "");
      if (!this.isConnected) return;
      this.#show(answer, tools.valuesOf(this.#form));
      if (answer.errors.source) {
        throw new LinkProblem("This link was made with a trace file, which stayed where it was made: drop that file here.");
      }
      const reason = Object.values(answer.errors)[0];
      if (reason !== undefined) throw new LinkProblem(`What this link holds cannot be run: ${reason}`);
      await this.#run();
    }
  }

  if (!customElements.get("kv-playground")) customElements.define("kv-playground", KvPlayground);
}

/** The same for the same values, whatever their order. */
function keyOf(params: Params): string {
  return JSON.stringify(Object.entries(params).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Draw an SVG file as PNG, at twice its size. */
async function drawn(text: string): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth * 2;
    canvas.height = image.naturalHeight * 2;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the canvas gave no picture"))), "image/png");
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}

function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
