/** CodeMirror, set up for a short Python block. */

import {
  defaultKeymap,
  history,
  historyKeymap,
  indentWithTab,
  isolateHistory,
} from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import {
  bracketMatching,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  EditorView,
  GutterMarker,
  gutterLineClass,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

const markLine = StateEffect.define<number | null>();
const wrongLine = Decoration.line({ class: "kv-wrong-line" });

class WrongNumber extends GutterMarker {
  override elementClass = "kv-wrong-number";
}
const wrongNumber = new WrongNumber();

/** Where the marked line begins; an edit takes the mark away. */
const marked = StateField.define<number | null>({
  create: () => null,
  update(at, change) {
    let now = change.docChanged ? null : at;
    for (const effect of change.effects) {
      if (effect.is(markLine)) now = beginningOf(change.state, effect.value);
    }
    return now;
  },
  provide: (field) => [
    EditorView.decorations.from(field, (at): DecorationSet =>
      at === null ? Decoration.none : Decoration.set([wrongLine.range(at)]),
    ),
    gutterLineClass.computeN([field], (state) => {
      const at = state.field(field);
      return at === null ? [] : [rangeOf(at)];
    }),
  ],
});

function rangeOf(at: number): RangeSet<GutterMarker> {
  return RangeSet.of([wrongNumber.range(at)]);
}

function beginningOf(state: EditorState, line: number | null): number | null {
  return line === null || line < 1 || line > state.doc.lines ? null : state.doc.line(line).from;
}

export interface EditorEvents {
  changed(): void;
  run(): void;
}

export class Editor {
  readonly #view: EditorView;

  constructor(text: string, name: string, describedBy: string, events: EditorEvents) {
    this.#view = new EditorView({
      state: EditorState.create({ doc: text, extensions: extensions(name, describedBy, events) }),
    });
  }

  get element(): HTMLElement {
    return this.#view.dom;
  }

  get text(): string {
    return this.#view.state.doc.toString();
  }

  /** Replace the whole text; the editor's own undo takes it back. */
  set text(text: string) {
    const { doc } = this.#view.state;
    if (doc.toString() === text) return;
    this.#view.dispatch({
      changes: { from: 0, to: doc.length, insert: text },
      selection: { anchor: 0 },
      annotations: isolateHistory.of("full"),
      scrollIntoView: true,
    });
  }

  focus(): void {
    this.#view.focus();
  }

  /** Mark a line (from 1), or none. */
  mark(line: number | null): void {
    const at = beginningOf(this.#view.state, line);
    const scroll = at === null ? [] : [EditorView.scrollIntoView(at)];
    this.#view.dispatch({ effects: [markLine.of(line), ...scroll] });
  }

  destroy(): void {
    this.#view.destroy();
  }
}

function extensions(name: string, describedBy: string, events: EditorEvents) {
  const run = (): boolean => {
    events.run();
    return true;
  };
  return [
    lineNumbers(),
    highlightSpecialChars(),
    history(),
    indentUnit.of("    "),
    indentOnInput(),
    bracketMatching(),
    python(),
    syntaxHighlighting(classHighlighter),
    marked,
    keymap.of([
      { key: "Ctrl-Enter", run, preventDefault: true },
      { key: "Mod-Enter", run, preventDefault: true },
      { key: "Escape", run: letTabLeave },
      ...defaultKeymap,
      ...historyKeymap,
      indentWithTab,
    ]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) events.changed();
      const left = update.focusChanged && !update.view.hasFocus;
      if (update.docChanged || left) update.view.setTabFocusMode(false);
    }),
    EditorView.contentAttributes.of({
      "aria-label": name,
      "aria-describedby": describedBy,
      autocapitalize: "off",
      autocorrect: "off",
      spellcheck: "false",
    }),
  ];
}

/** After Escape, Tab moves the focus; typing or leaving makes it indent again. */
function letTabLeave(view: EditorView): boolean {
  view.setTabFocusMode(true);
  return true;
}
